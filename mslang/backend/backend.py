"""What a back end is: a value that says which targets it serves, and the functions that compile, load and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from mslang.diagnostics import TargetError, problem
from mslang.ir.buckets import Bucket
from mslang.ir.origins import Origin
from mslang.ir.program import Program
from mslang.runtime.signature import Signature
from mslang.runtime.timing import Limits, Timing
from mslang.target.description import Target

if TYPE_CHECKING:
    from mslang.kernel.nodes import Module
    from mslang.lower.instructions import InstructionTexts
    from mslang.lower.passes import Pass
    from mslang.schedule.session import Session
    from mslang.schedule.space import Candidate

E = TypeVar("E")


class Options(msgspec.Struct, frozen=True):
    """How to compile.

    Args:
        checked: compare every index with its dimension while running.
        allow_native: whether implementations in a back end's text may do more than compute.
        text_only: whether only stages of the executable are wanted, so that a slow compiler need not run for all.
        lines: whether instructions shall know the statement that they come from, for people.
        origins: with `lines`, the blocks of the program, so that statements know where they are written.
    """

    checked: bool = False
    allow_native: bool = False
    text_only: bool = False
    lines: bool = False
    origins: tuple[Origin, ...] = ()


AS_IS = Options()
"""Nothing checked, nothing allowed."""


class Bound(Protocol):
    """A loaded kernel with its arguments."""

    def run(self, times: int = 1) -> None:
        """Run so many times, to the end."""

    def prepared(self) -> AbstractContextManager[tuple[Callable[[int], None], Callable[[], None]]]:
        """What runs the kernel so many times, and what packs changed arrays again; outputs are complete at the end."""

    def time(self, limits: Limits | None = None) -> Timing:
        """How long a run takes."""


@runtime_checkable
class BoundTogether(Protocol):
    """Bound kernels that are run as one: a program at several sizes."""

    @property
    def parts(self) -> Sequence[tuple[Bound, int]]:
        """Each kernel, and how many times a run calls it."""


class Loaded(Protocol):
    """A kernel that can be called in this process: what `ms.build` returns."""

    @property
    def signature(self) -> Signature:
        """What it takes."""

    def __call__(self, /, *arrays: object, **named: object) -> Any:
        """Run on arrays; returns the outputs. `threads = n` lets at most so many threads of the processor run."""

    def bind(self, /, *arrays: object, **named: object) -> Bound:
        """Check the arguments once, to run many times."""

    def pack(self, name: str, array: object) -> Any:
        """An array in the layout that the kernel takes for a parameter."""

    def time(self, /, *arrays: object, limits: Limits | None = None, **named: object) -> Timing:
        """How long a run takes."""


class Stage(msgspec.Struct, Generic[E], frozen=True):
    """A form of an executable to be shown: `mslang show --stage NAME` prints `text(executable)`.

    `lines`: the executable is compiled with the option of that name.
    """

    name: str
    about: str
    text: Callable[[E], str]
    lines: bool = False


class LibraryPart(msgspec.Struct, frozen=True):
    """A scheduled program, and the target that a library has it for; `bucket`: for which sizes alone.

    Those of the buckets stand behind the part that serves every size, for each target.
    """

    program: Program
    target: Target
    bucket: Bucket | None = None


class Library(msgspec.Struct, frozen=True):
    """A program for callers in other languages: what makes each form's bytes, by the suffix of its file."""

    forms: Mapping[str, Callable[[], bytes]]


class Clock(msgspec.Struct, frozen=True):
    """Two instructions in the text of a back end, over `{slot}`: two 64-bit words, ticks and entries.

    `start` subtracts the clock from the ticks; `stop` adds it, and one to the entries. `shared_start` and
    `shared_stop` do so where several threads have one slot.
    """

    start: str
    stop: str
    shared_start: str
    shared_stop: str


def always_available(target: Target) -> str | None:
    """The `unavailable` of a back end that can run everywhere."""
    return None


def standard_passes() -> Sequence[Pass]:
    """The passes after which a kernel has the loops of its schedule, and blocks no more."""
    from mslang.lower.passes import LOOPS

    return LOOPS


def finish_nests(session: Session, target: Target) -> None:
    """Schedule the nests that a running schedule left alone, for a CPU: outer loops parallel, inner ones vectors."""
    from mslang.schedule.rules.default_cpu import finish

    finish(session)


class BackEnd(msgspec.Struct, Generic[E], frozen=True):
    """A back end. An executable `E` is a value that can be pickled: workers compile, others load.

    The functions import what is heavy when they are called, so that naming a back end costs nothing. Those of a back
    end that tunes are functions of modules, as worker processes import them.

    Args:
        name: what `backend=` and `--backend` name, and `impl` in an intrinsic.
        kinds: kinds of the targets that it serves where no back end is named (`"cpu"`, `"cuda"`).
        compile: makes an executable of a lowered program.
        load: makes an executable callable in this process.
        version: name and version of what compiles; times of different compilers are not compared.
        passes: gives the passes that lower a program, in order; None: `compile` takes the program itself.
        plain: whether programs without a schedule are compiled as they are, which others can be compared with.
        emulates: whether an instruction without an implementation for the back end is compiled as the statements that
            it stands for; if not, it is refused.
        checks: whether a build with `checked` compares every access with its buffer; without, such a build is refused.
        default: gives the schedule of a program without one, which tuning times along with the best; of a program
            that has a schedule a candidate without steps. None: programs are compiled as they are.
        finish: schedules the nests that a running schedule has left alone; None: it cannot, and records of a program's
            anchor do not serve it.
        prepare: what is done while a program still has blocks, before the passes; None: nothing.
        unavailable: why this machine cannot run code for a target; None if it can.
        stages: the forms of an executable that can be shown.
        peak: the most operations a second of a target, given an element type and whether to measure again; None: not
            known, then times are not checked against it.
        peak_basis: where the peak comes from, for people.
        ceiling: the operations a second that no correct time exceeds, as `peak`; None: they are the peak.
        bandwidth: the most bytes a second to and from the memory of a target; None: not known.
        time: times a bound kernel, or several (`BoundTogether`), within limits; the last argument, if any, restores
            inputs that runs change.
            None: by the clock, in turn with a loop of known work on the same core.
        library: makes a library of a program for each target, given its name, what it is made from, and whether
            `allow_native`; None: there are none (`mslang build`).
        device: the name of what runs the code; None: the processor does.
        caches: how runs that are timed find the caches where the limits do not say so.
        clock: what times parts of a kernel while it runs; None: they cannot be timed (`mslang run --profile`).

    >>> def compiled(module, target, options): return module
    >>> mine = BackEnd("mine", ("cpu",), compiled, load=lambda module: module, version=lambda: "mine 1")
    >>> mine.name
    'mine'
    """

    name: str
    kinds: tuple[str, ...]
    compile: Callable[[Any, Target, Options], E]
    load: Callable[[E], Loaded]
    version: Callable[[], str]
    passes: Callable[[], Sequence[Pass]] | None = standard_passes
    plain: bool = True
    emulates: bool = True
    checks: bool = False
    default: Callable[[Program, Target], Candidate] | None = None
    finish: Callable[[Session, Target], None] | None = finish_nests
    prepare: Callable[[Program], Program] | None = None
    unavailable: Callable[[Target], str | None] = always_available
    stages: tuple[Stage[E], ...] = ()
    peak: Callable[[Target, str, bool], float | None] | None = None
    peak_basis: str = "the most seen on this machine"
    ceiling: Callable[[Target, str, bool], float | None] | None = None
    bandwidth: Callable[[Target], float | None] | None = None
    time: Callable[[Bound, Limits, Callable[[], None] | None], Timing] | None = None
    library: Callable[[Sequence[LibraryPart], str, str, bool], Library] | None = None
    device: Callable[[], str] | None = None
    clock: Clock | None = None
    caches: Literal["warm", "cold"] = "warm"

    @property
    def texts(self) -> InstructionTexts:
        """Those that implement instructions in its code."""
        from mslang.lower.instructions import InstructionTexts

        return InstructionTexts(self.name, required=not self.emulates)

    def scheduled(self, program: Program, target: Target) -> Program:
        """The program that is compiled: with the default schedule of the back end, if it has none."""
        return program if self.default is None else self.default(program, target).program

    def prepared(self, program: Program, target: Target) -> Program:
        """What the passes begin with: the scheduled program, prepared."""
        made = self.scheduled(program, target)
        return made if self.prepare is None else self.prepare(made)

    def lowered(self, program: Program, target: Target, options: Options = AS_IS) -> Program | Module:
        """What `compile` takes: the kernels of a program, or the program.

        Raises:
            MsError: the program cannot be lowered; TargetError: the target is the reason, MS460 to MS466: its limits,
                or MS449, accesses are to be checked, and the back end has no code for that.
        """
        from mslang.lower.passes import lower
        from mslang.lower.summary import require_within_limits

        if options.checked and not self.checks:
            raise TargetError(
                problem(
                    "MS449",
                    f"the back end {self.name} does not check accesses",
                    why="its code has no place to report an access out of bounds",
                    help='`ms.build(program, checked=True, backend="reference")` interprets the program and checks all',
                )
            )
        program = self.scheduled(program, target)
        if self.passes is None:
            return program
        require_within_limits(program, target)
        program = program if self.prepare is None else self.prepare(program)
        return lower(program, target, checked=options.checked, passes=self.passes(), texts=self.texts)

    def built(self, program: Program, target: Target, options: Options = AS_IS) -> E:
        """The executable of a concrete program.

        Raises:
            MsError: the program cannot be compiled; TargetError: the target is the reason.
        """
        return self.compile(self.lowered(program, target, options), target, options)

    def loaded(self, program: Program, target: Target, options: Options = AS_IS) -> Loaded:
        """The program, compiled and loaded into this process; raises as `built` does."""
        return self.load(self.built(program, target, options))
