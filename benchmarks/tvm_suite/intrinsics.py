"""TVM's registry of intrinsics: each is a description and an implementation in TVMScript."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Mapping
from pathlib import Path

from benchmarks.tvm_suite.reading import NotPortable, Script
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.ir.intrin import Intrin


class Intrinsics:
    """The intrinsics that a test file registers."""

    def __init__(self, library: Path = Path()) -> None:
        self.known: dict[str, tuple[Script, Script]] = {}
        self.library = library
        """Where TVM's own are."""

    def constant(self, name: str) -> str:
        """What the library calls an intrinsic (`VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"`), which is registered.

        Raises:
            NotPortable: the library is not there, or has none of that name.
        """
        for path in sorted(self.library.glob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            values: dict[str, object] = {}
            for s in tree.body:
                match s:
                    case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=value)):
                        values[target] = value
            if name in values:
                self._register_all(tree, values)
                return str(values[name])
        return name

    def _register_all(self, tree: ast.Module, values: Mapping[str, object]) -> None:
        """Make those of a file known that are registered with functions of the file."""
        imports = [s for s in tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
        functions = {s.name: s for s in tree.body if isinstance(s, ast.FunctionDef)}
        for s in tree.body:
            match s:
                case ast.Expr(value=ast.Call(func=ast.Attribute(attr="register"), args=given)):
                    called = [x.id for x in given if isinstance(x, ast.Name)]
                    if len(called) == 3 and called[0] in values and {*called[1:]} <= functions.keys():
                        bodies: list[list[ast.stmt]] = [[*imports, functions[f]] for f in called[1:]]
                        desc, impl = (Script(ast.unparse(ast.Module(body, []))) for body in bodies)
                        self.register(str(values[called[0]]), desc, impl)

    def register(self, name: str, desc: Script, impl: Script, override: bool = False) -> None:
        """Make one known."""
        self.known[name] = (desc, impl)

    def get(self, name: str, allow_missing: bool = False) -> tuple[Script, Script] | None:
        """One by its name.

        Raises:
            ValueError: there is none.
        """
        if name not in self.known and not allow_missing:
            raise ValueError(name)
        return self.known.get(name)

    def intrin(self, name: str) -> Intrin:
        """One as this project has them.

        Raises:
            NotPortable: it is one of TVM's library.
        """
        found = self.known.get(name)
        if found is None:
            raise NotPortable(f"an intrinsic of TVM's library: {name}")
        desc, impl = found
        try:
            return tvmscript.intrin(name, desc.text, impl.text)
        except MsError as error:
            if any(isinstance(x, ast.Attribute) and x.attr == "data" for x in ast.walk(ast.parse(impl.text))):
                raise NotPortable(f"not read: {error.diagnostic.message}") from error
        return Intrin(name, desc.program, program=impl.program)

    def meaning(self, name: str) -> Intrin:
        """One as this project has them, of which what it does is all that is asked."""
        found = self.get(name)
        assert found is not None
        return Intrin(name, found[0].program, program=found[0].program)

    def readable(self) -> list[Intrin]:
        """Those of which it is known what their calls look like."""
        found: list[Intrin] = []
        for name in self.known:
            with contextlib.suppress(NotPortable):
                found.append(self.intrin(name))
        return found
