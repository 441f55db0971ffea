"""Stand-ins for parts of TVM's trees of which tests ask the name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.tvm_suite.reading import NotPortable, Script, Whatever
from mslang.interop.directions import directed
from mslang.ir.expr import Const, Expr, Load
from mslang.ir.find import all_buffers, blocks_of, path_to_loop
from mslang.ir.program import Param, Program
from mslang.schedule.values import Size

if TYPE_CHECKING:
    from benchmarks.tvm_suite.schedule import TvmSchedule


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


class Result:
    """The program that a schedule has come to."""

    def __init__(self, schedule: TvmSchedule) -> None:
        self.schedule = schedule

    @property
    def program(self) -> Program:
        """The program."""
        return self.schedule.own.program

    def __getitem__(self, name: str) -> Result:
        return self

    def with_attr(self, *given: object) -> Result:
        """The same: attributes of functions mean nothing here."""
        return self

    @property
    def params(self) -> list[object]:
        """The parameters, as TVM has them."""
        return parameters(self.program)

    def __getattr__(self, name: str) -> Whatever:
        return Whatever()


class Part:
    """A function put together from the parts of another."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.params = program.params


def function(params: Sequence[object], body: object) -> object:
    """TVM's `PrimFunc(params, body)`, of a whole program or of a loop of one.

    Raises:
        NotPortable: the parts are others.
    """
    if isinstance(body, Script):
        return body
    names = [p.name for p in params if isinstance(p, Named)]
    if not isinstance(body, Node) or body.program is None or len(names) != len(params):
        raise NotPortable("a part of TVM's tree is built")
    path = path_to_loop(body.program, body.name)
    buffers = all_buffers(body.program)
    if path is None:
        raise NotPortable("a part of TVM's tree is built")
    made = Program("main", tuple(Param(buffers[n]) for n in names), (path[-1],), dynamic=body.program.dynamic)
    return Part(directed(made))


def _size(n: Expr) -> object:
    return int(n.value) if isinstance(n, Const) else Size(n)


class Outside(Whatever):
    """A buffer that a test makes up."""

    def __init__(self, shape: object, dtype: object, name: str) -> None:
        self.name = name

    def __getitem__(self, key: object) -> Whatever:
        return Size(Load(self.name, (Const(0),), "i32"))  # type: ignore[return-value]


class Accessed(Whatever):
    """A region that a block accesses, of which tests ask the buffer."""

    def __init__(self, buffer: str) -> None:
        self.buffer = Named(buffer)


class Named(Whatever):
    """A buffer of a program."""

    def __init__(self, name: str) -> None:
        self.name = name


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

    def __init__(self, name: str, extent: object, program: Program | None = None) -> None:
        self.name = self.name_hint = name
        self.extent = extent
        self.program = program
        block = next((b for b in blocks_of(program.body) if b.name == name), None) if program else None
        if block is not None:
            self.reads = [Accessed(r.buffer) for r in block.reads]
            self.writes = [Accessed(r.buffer) for r in block.writes]

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
