"""Stand-ins for parts of TVM's trees of which tests ask the name."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.tvm_suite.reading import NotPortable, Whatever
from mslang.ir.expr import Const, Expr, Load
from mslang.ir.program import Program
from mslang.schedule.size import Size


class Parameter(Whatever):
    """A parameter of a function, of which tests ask the shape, or to which they do arithmetic."""

    def __init__(self, shape: Sequence[object]) -> None:
        self.shape = shape

    @property
    def ty(self) -> Parameter:
        """Its type, which has the shape."""
        return self


def parameters(program: Program) -> list[object]:
    """The parameters of a program as TVM has them: buffers, then scalars."""
    buffers = [Parameter([_size(n) for n in p.buffer.shape]) for p in program.params]
    return [*buffers, *(Size(s) for s in program.dynamic)]


def _size(n: Expr) -> object:
    return int(n.value) if isinstance(n, Const) else Size(n)


class Outside(Whatever):
    """A buffer that a test makes up."""

    def __init__(self, shape: object, dtype: object, name: str) -> None:
        self.name = name

    def __getitem__(self, key: object) -> Whatever:
        return Size(Load(self.name, (Const(0),), "i32"))  # type: ignore[return-value]


class Reference(Whatever):
    """TVM's reference to a statement of one schedule."""

    def __init__(self, stmt: Node, schedule: object) -> None:
        self.stmt = stmt
        self.schedule = schedule

    def same_as(self, other: object) -> bool:
        """Whether it is the same reference."""
        return isinstance(other, Reference) and self.stmt == other.stmt and self.schedule is other.schedule


class Node(Whatever):
    """What stands behind a handle; two are the same if they are of the same name."""

    def __init__(self, name: str, extent: object) -> None:
        self.name = self.name_hint = name
        self.extent = extent

    @property
    def stmt(self) -> Node:
        """The statement of a reference to one."""
        return self

    loop_var = stmt

    def same_as(self, other: object) -> bool:
        """Whether it is the same statement."""
        return self == other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            raise NotPortable("a part of TVM's tree is compared")
        return self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)
