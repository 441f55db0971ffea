"""The state of a trace's import: the session, the values of TVM's random variables, and differences from TVM."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.interop.tvm.names import TvmNames
from mslang.interop.tvm.trace_json import Input, Name
from mslang.ir.arith import simplify, substitute_symbols
from mslang.ir.expr import Const, Expr
from mslang.ir.find import blocks_of, path_to_block, path_to_loop
from mslang.ir.intrin import Intrin
from mslang.ir.program import Block, For
from mslang.schedule import distribution
from mslang.schedule.handles import Handle
from mslang.schedule.session import Session
from mslang.transform.outcome import BlockRef, LoopRef


class Root(msgspec.Struct, frozen=True):
    """TVM's root block."""


ROOT = Root()


def misfit(message: str, why: str | None = None) -> MsError:
    """The error of an instruction that does not fit the program."""
    return MsError(problem("MS743", message, why=why))


class State:
    """A session and the corresponding state in TVM.

    `absent` are the numbers of the handles of loops that TVM omits, `intrinsics` those of the user, by name.
    """

    def __init__(self, session: Session, intrinsics: Mapping[str, Intrin] = MappingProxyType({})) -> None:
        self.session = session
        self.intrinsics = intrinsics
        self.values: dict[str, object] = {}
        self.names = TvmNames(session)
        self.absent: set[int] = set()

    def value(self, name: Name) -> object:
        """The value of a random variable.

        Raises:
            MsError: MS743, the variable is unknown.
        """
        if name.text not in self.values:
            raise misfit(f"nothing is called `{name.text}` at this point of the trace")
        return self.values[name.text]

    def handle(self, value: Input, what: str = "a loop or block") -> Handle:
        """The loop or block that an input names.

        Raises:
            MsError: MS743, its value is of another kind.
        """
        found = self.value(value) if isinstance(value, Name) else value
        if not isinstance(found, Handle):
            raise misfit(f"{what} is needed, not {'the root block' if found is ROOT else repr(found)}")
        return found

    def ask(self, getter: str, of: Handle) -> tuple[Handle, ...]:
        """The handles that one of our getters returns."""
        found = self.session.call(getter, (of,), {})
        assert isinstance(found, tuple)
        return found

    def extent(self, loop: Handle) -> int | None:
        """The trip count of a loop for the current decisions, if known."""
        found = self.statement(loop)
        if not isinstance(found, For):
            raise misfit(f"a loop is needed, not the block `{found.name}`")
        return self.number(found.extent)

    def number(self, e: Expr) -> int | None:
        """A size for the current decisions, if known."""
        known = simplify(substitute_symbols(e, distribution.plain(self.session.draws.numbers)))
        return known.value if isinstance(known, Const) and isinstance(known.value, int) else None

    def statement(self, handle: Handle) -> For | Block:
        """The loop or block of a handle."""
        ref = self.session.handles.resolve(handle)
        find = path_to_block if isinstance(ref, BlockRef) else path_to_loop
        path = find(self.session.program, ref.name)
        assert path is not None
        found = path[-1]
        assert isinstance(found, For | Block)
        return found

    def loops_above(self, block: object) -> tuple[Handle, ...]:
        """The enclosing loops of a block; empty if it no longer exists."""
        alive = isinstance(block, Handle) and self.session.handles.alive(block)
        return self.ask("loops", block) if alive else ()  # type: ignore[arg-type]

    def loops_elsewhere(self, block: object) -> frozenset[int]:
        """The loops there are before a block moves: what is above it then is new or was there."""
        program = self.session.program
        found: set[int] = set()
        for b in blocks_of(program.body):
            if not isinstance(block, Handle) or b.name != self.session.handles.resolve(block).name:
                found |= {h.number for h in self.ask("loops", self.session.handles.handle(BlockRef(b.name)))}
        return frozenset(found)

    def with_absent(self, loops: object) -> tuple[Handle, ...]:
        """The loops to fuse, and those between them that TVM omits."""
        assert isinstance(loops, tuple)
        if not self.absent or len(loops) < 2:
            return loops
        path = path_to_loop(self.session.program, self.session.handles.resolve(loops[-1]).name) or ()
        chain = [self.session.handles.handle(LoopRef(s.var)) for s in path if isinstance(s, For)]
        start = next((k for k, h in enumerate(chain) if h == loops[0]), 0)
        return tuple(h for h in chain[start:] if h in loops or h.number in self.absent)
