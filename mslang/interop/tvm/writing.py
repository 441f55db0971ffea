"""A TVM trace under construction, and the session that replays ours in parallel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mslang.diagnostics import Diagnostic, MsError, Severity, problem
from mslang.interop.tvm.names import TvmNames
from mslang.interop.tvm.trace_json import Input, Inst, Name, TvmTrace
from mslang.ir import arith
from mslang.ir.expr import Const, Expr
from mslang.ir.find import blocks_of, path_to_loop
from mslang.schedule import distribution
from mslang.schedule.handles import Handle
from mslang.schedule.session import Session
from mslang.transform.outcome import BlockRef


def lacking(what: str) -> MsError:
    """The error of a feature that TVM cannot express."""
    return MsError(problem("MS746", f"TVM has no equal of {what}".rstrip(",")))


class Writing:
    """The written part: instructions, decisions by instruction position, and the variables of handles."""

    def __init__(self, session: Session, function: str, blocks: Mapping[str, str]) -> None:
        self.session = session
        self.function = function
        self.names = TvmNames(session, blocks)
        self.insts: list[Inst] = []
        self.decisions: list[tuple[int, object]] = []
        self.blocks: dict[int, Name] = {}
        self.loops: dict[int, Name] = {}
        """By the number of a handle."""
        self.sizes: dict[str, Name] = {}
        """By a symbol's text, or the name of a location."""
        self.count = 0
        self.notes: dict[str, Diagnostic] = {}

    def note(self, message: str, why: str) -> None:
        """Add a note on a difference, once."""
        self.notes[message] = Diagnostic("MS744", message, severity=Severity.WARNING, why=why)

    def emit(self, kind: str, inputs: Sequence[Input], attrs: Sequence[Input], given: str = "") -> tuple[Name, ...]:
        """Append an instruction with one output variable for each letter of `given`."""
        names = tuple(Name(f"{letter}{self.count + k}") for k, letter in enumerate(given))
        self.count += len(names)
        self.insts.append(Inst(kind, tuple(inputs), tuple(attrs), tuple(n.text for n in names)))
        return names

    def decide(self, value: object) -> None:
        """Set the decision of the last instruction."""
        self.decisions.append((len(self.insts) - 1, value))

    @property
    def trace(self) -> TvmTrace:
        """The trace so far."""
        return TvmTrace(tuple(self.insts), tuple(self.decisions))

    def variables(self, handle: Handle) -> dict[int, Name]:
        """The variables of loops, or of blocks, as the handle is one."""
        return self.loops if handle.kind == "loop" else self.blocks

    def name(self, handle: Handle) -> Name:
        """The random variable of a handle; a getter is inserted if it has none yet."""
        known = self.variables(handle).get(handle.number)
        if known is not None:
            return known
        ref = self.session.handles.resolve(handle)
        if isinstance(ref, BlockRef):
            (known,) = self.emit("GetSBlock", (), (self.names.of_block(ref.name), self.function), "b")
            self.blocks[handle.number] = known
            return known
        path = path_to_loop(self.session.program, ref.name)
        assert path is not None
        block = blocks_of((path[-1],), into_blocks=False)[0]
        of = self.session.handles.handle(BlockRef(block.name))
        loops = self.session.call("loops", (of,), {})
        assert isinstance(loops, tuple)
        made = self.emit("GetLoops", (self.name(of),), (), "l" * len(loops))
        for loop, name in zip(loops, made, strict=True):
            self.loops.setdefault(loop.number, name)
        return self.loops[handle.number]

    def number(self, e: Expr) -> int:
        """A size for the current decisions.

        Raises:
            MsError: MS746, the size is known only at the call.
        """
        known = arith.simplify(arith.substitute_symbols(e, distribution.plain(self.session.draws.numbers)))
        if not isinstance(known, Const) or not isinstance(known.value, int):
            raise lacking("a size that is known only at the call")
        return known.value
