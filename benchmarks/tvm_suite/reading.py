"""Test files of TVM taken apart: their programs are read as TVMScript, their test functions run against stand-ins.

Nothing of TVM is imported. A function or class marked as TVMScript becomes a `Script`, read when it is first used; what
a file imports becomes the stand-ins of `standins.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from benchmarks.tvm_suite.macros import expanded
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.interop.tvmscript.names import their_type
from mslang.ir.expr import Const
from mslang.ir.intrin import Intrin
from mslang.ir.program import Program

STOOD_IN = ("tvm", "tvm_ffi", "pytest")
MARKS = ("prim_func", "ir_module")


class NotPortable(Exception):
    """A test needs something of TVM itself, or a program that is not read; the text says what."""


class Whatever:
    """What a test asks of TVM's own objects: it answers anything, and is true."""

    def __getattr__(self, name: str) -> Whatever:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: object, **named: object) -> Whatever:
        return self

    def __getitem__(self, key: object) -> Whatever:
        return self

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


_LOCALS = ast.Call(ast.Name("locals", ast.Load()), [], [])


class Script:
    """A function (or a module of one) in TVMScript, with the names that its text may use."""

    def __init__(
        self,
        text: str,
        around: Mapping[str, object] | None = None,
        *,
        known: Callable[[], Sequence[Intrin]] = tuple,
        names: Mapping[str, object] | None = None,
    ) -> None:
        made = expanded(ast.parse(text), {**(names or {}), **(around or {})})
        self.text = _with_values(ast.unparse(made), around or {})
        self.known = known
        """The instructions whose calls may stand in it."""
        self.chosen = ""
        """The program that is worked on, where there are several."""

    @cached_property
    def programs(self) -> Mapping[str, Program]:
        """The programs, by their names.

        Raises:
            NotPortable: one cannot be read.
        """
        try:
            return {p.name: p for p in tvmscript.parse(self.text, intrinsics=self.known())}
        except MsError as error:
            raise NotPortable(f"not read: {error.diagnostic.message}") from error

    @property
    def program(self) -> Program:
        """The program: that which was chosen, `main`, or the only one.

        Raises:
            NotPortable: it cannot be read.
            MsError: there are several, and none is `main`.
        """
        chosen = self.chosen or "main"
        if chosen in self.programs:
            return self.programs[chosen]
        return tvmscript.parse_one(self.text, intrinsics=self.known())

    @property
    def params(self) -> list[Any]:
        """The parameters, as TVM has them."""
        from benchmarks.tvm_suite.nodes import parameters

        return parameters(self.program)

    @property
    def blocks(self) -> Mapping[str, str]:
        """What each block is called here, by its name in the text."""
        found = tvmscript.read(self.text, intrinsics=self.known()).functions
        return found[0].blocks if found else {}

    def __getitem__(self, name: str) -> Script:
        return self

    def __getattr__(self, name: str) -> Whatever:
        if name.startswith("__"):
            raise AttributeError(name)
        return Whatever()

    @property
    def body(self) -> Script:
        """The body, the block at its root and what that holds: the program itself."""
        return self

    block = body

    def with_attr(self, *given: object) -> Script:
        """The same: attributes of functions mean nothing here."""
        return self


def _with_values(text: str, around: Mapping[str, object]) -> str:
    """A text after assignments of the values that its names have where it stands, as far as they can be written."""
    tree = ast.parse(text)
    used = {x.id for x in ast.walk(tree) if isinstance(x, ast.Name)}
    known = {n: _written(v) for n, v in around.items() if n in used}
    written = {n: v for n, v in known.items() if v is not None}
    rest = [s for s in tree.body if not (isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) in written)]
    return "".join(f"{n} = {v}\n" for n, v in written.items()) + ast.unparse(ast.Module(rest, []))


def _written(value: object) -> str | None:
    match value:
        case bool() | int() | float() | str():
            return repr(value)
        case Const(value=v, dtype=d):
            return f"T.{their_type(d)}({v!r})"
    return None


class _Scripts(ast.NodeTransformer):
    """Puts `Script("…")` in the place of what is marked as TVMScript, and drops imports of TVM."""

    def __init__(self, tree: ast.Module) -> None:
        self.known = [s for s in tree.body if isinstance(s, ast.Import | ast.ImportFrom | ast.Assign)]
        self.inside = False
        """Whether this is in a function, which has names of its own."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if _marked(node):
            return self._script(node)
        plain = [s for s in ast.walk(node) if isinstance(s, ast.Assign) and _is_plain(s.value)]
        self.known, outer, self.inside = [*self.known, *plain], self.known, True
        self.generic_visit(node)
        self.known, self.inside = outer, False
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._script(node) if _marked(node) else node

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        return None if any(a.name.split(".")[0] in STOOD_IN for a in node.names) else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if (node.module or "").split(".")[0] in STOOD_IN else node

    def _script(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        text = ast.unparse(ast.Module([*self.known, node], []))
        around: list[ast.expr] = [ast.Call(ast.Name("dict", ast.Load()), [_LOCALS], [])] if self.inside else []
        value = ast.Call(ast.Name("Script", ast.Load()), [ast.Constant(text), *around], [])
        made = ast.copy_location(ast.Assign([ast.Name(node.name, ast.Store())], value), node)
        return ast.fix_missing_locations(made)


def _marked(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return any(mark in ast.unparse(d) for d in node.decorator_list for mark in MARKS)


def _is_plain(e: ast.expr) -> bool:
    return all(
        isinstance(x, ast.Constant | ast.Tuple | ast.List | ast.Load | ast.UnaryOp | ast.USub) for x in ast.walk(e)
    )


def imported(tree: ast.Module) -> Iterator[str]:
    """The names that a file's imports of TVM bind."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                module = getattr(node, "module", None) or names[0].name
                if module.split(".")[0] in STOOD_IN:
                    yield from (a.asname or a.name.split(".")[0] for a in names)


def tests_of(
    path: Path, stand_in: Callable[[str], Any], known: Callable[[], Sequence[Intrin]] = tuple
) -> Mapping[str, Callable[..., None]]:
    """The test functions of a file, ready to run with stand-ins for what it imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {n: stand_in(n) for n in imported(tree)}
    names |= {"Script": partial(Script, known=known, names=names), "__name__": path.stem}
    changed = ast.fix_missing_locations(_Scripts(tree).visit(tree))
    for statement in changed.body:
        try:
            exec(compile(ast.Module([statement], []), str(path), "exec"), names)
        except NotPortable:
            continue
    return {n: f for n, f in names.items() if n.startswith("test_") and callable(f)}
