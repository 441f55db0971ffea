"""The values of names of a function while it is read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

import msgspec

from mslang.interop.closed import Let, Loop, Outer
from mslang.interop.tvmscript.source import refuse
from mslang.interop.tvmscript.values import Number
from mslang.ir.expr import Const, Expr, Load, Var
from mslang.ir.program import Buffer, Range, Region
from mslang.ir.visit import free_vars, substitute


class Array(msgspec.Struct, frozen=True):
    """A buffer. `memory` is the one in which its elements lie, if it is declared over the memory of another."""

    buffer: Buffer
    memory: Buffer | None = None


class Pointer(msgspec.Struct, frozen=True):
    """A pointer into a buffer, `offset` elements from the start of its memory."""

    array: Array
    offset: Expr


class Handle(msgspec.Struct, frozen=True):
    """A parameter that needs a `match_buffer` to become a buffer."""

    name: str


class Thread(msgspec.Struct, frozen=True):
    """A thread that is named before it is launched (`tx = T.env_thread("threadIdx.x")`)."""

    tag: str
    var: str | None = None
    """The variable that stands for its number."""


class Macro(msgspec.Struct, frozen=True):
    """A function whose statements stand where it is called. `names` are those in scope where it is defined, as they
    are when it is called; None for those in scope at the call."""

    function: ast.FunctionDef
    names: Mapping[str, Value] | None
    defaults: Mapping[str, Value]
    """The default values of parameters."""


class Lane(msgspec.Struct, frozen=True):
    """The lane of the vector that a statement stores."""

    var: Var
    lanes: int


class Unnamed(msgspec.Struct, frozen=True):
    """A size that is named by its binding (`n = T.int32()`)."""

    dtype: str


class Unknown(msgspec.Struct, frozen=True):
    """A value known only when the file runs."""

    why: str


class Options(msgspec.Struct, frozen=True):
    """The values that a parameter of a test's functions has in turn."""

    values: tuple[Value, ...]


class Reads(msgspec.Struct, frozen=True):
    """A buffer's region as a value (`A[0:4]`)."""

    region: Region


Value = (
    Number
    | Array
    | Pointer
    | Handle
    | Thread
    | Unnamed
    | Unknown
    | Options
    | Macro
    | Reads
    | str
    | None
    | tuple["Value", ...]
    | dict[str, "Value"]
)


class Scope:
    """The names in scope. A body has a scope of its own; its bindings end with it."""

    def __init__(self, names: Mapping[str, Value], outer: Mapping[str, Outer] | None = None) -> None:
        self.names: dict[str, Value] = dict(names)
        self.outer: dict[str, Outer] = dict(outer or {})
        """The variables of the program (not of the text) that are in scope."""
        self.own: set[str] = set()
        """The names bound in this body."""
        self.lane: Lane | None = None
        """The lane that is computed, in a store of a vector."""

    def inner(self) -> Scope:
        """The scope of a nested body."""
        made = Scope(self.names, self.outer)
        made.lane = self.lane
        return made

    def bind(self, name: str, value: Value) -> None:
        """Bind a name in this body."""
        self.names[name] = value
        self.own.add(name)

    def look(self, name: ast.Name) -> Value:
        """The value of a name; unknown names are refused."""
        value = self.names.get(name.id, Unknown(f"nothing in the file says what `{name.id}` is"))
        if isinstance(value, Options):
            value = Unknown(f"`{name.id}` has several values")
        if isinstance(value, Unknown):
            raise refuse(
                "MS732",
                name,
                f"`{name.id}` is not known without running the file",
                value.why,
                "write its value in its place, or import the text that `.script()` prints",
            )
        return value

    def ranges(self) -> dict[str, Range]:
        """The ranges of the loops and axes in scope."""
        return {n: Range(x.start, x.extent) for n, x in self.outer.items() if isinstance(x, Loop)}

    def expanded(self, e: Expr) -> Expr:
        """An expression with the `let`s in scope expanded."""
        lets = {n: x.value for n, x in self.outer.items() if isinstance(x, Let)}
        while free_vars(e) & lets.keys():
            e = substitute(e, lets)
        return e


def one_element(target: ast.expr, scope: Scope) -> Array | None:
    """The buffer of one element that a name stands for: an assignment to the name stores into it.

    Raises:
        MsError: MS731, the name stands for an element of a buffer, which may be the only one.
    """
    match scope.names.get(target.id) if isinstance(target, ast.Name) else None:
        case Array(buffer=Buffer(shape=(Const(value=1),))) as found:
            return found
        case Number(expr=Load()):
            raise refuse(
                "MS731", target, f"`{ast.unparse(target)}` stands for an element of a buffer, and is assigned",
                help="store into the buffer: `A[i] = value`",
            )  # fmt: skip
    return None


class Names:
    """Allocates unique names in the program; the first request gets the name itself."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self.taken: set[str] = set()
        self.reserved = frozenset(reserved)
        """Names reserved for later buffers and blocks: no loop, axis or let takes them."""
        self.local: set[str] = set()
        """The names of axes and lets."""

    def declared(self, name: str, other: str | None = None) -> str:
        """The name of a buffer, block or size: itself, or `other` (then `other_1`, …) if it is taken."""
        name = plain(name)
        if name not in self.taken and name not in self.local:
            found = name
        else:
            found = _free(plain(other) if other else name, self.taken | self.local | self.reserved)
        self.taken.add(found)
        return found

    def loop(self, name: str, visible: Iterable[str]) -> str:
        """The name of a loop."""
        found = _free(plain(name), self.taken | self.reserved | set(visible))
        self.taken.add(found)
        return found

    def inside(self, name: str, visible: Iterable[str]) -> str:
        """The name of an axis or `let`: other blocks may have one of that name."""
        found = _free(plain(name), self.taken | self.reserved | set(visible))
        self.local.add(found)
        return found


def _free(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    k = 1
    while f"{name}_{k}" in taken:
        k += 1
    return f"{name}_{k}"


def plain(name: str) -> str:
    """A valid name: without backticks and newlines, and not a reserved word."""
    text = name.replace("`", "_").replace("\n", "_").replace("\r", "_")
    return f"{text or 'b'}_" if text in ("", "_", "inf", "nan") else text
