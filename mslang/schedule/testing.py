"""Running `test` items: `check`, `snapshot`, and the functions that tests use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import dedent
from types import MappingProxyType
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import Diagnostic, MsError, ScheduleError, Span, TargetError, problem
from mslang.ir.intrin import Intrin
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.schedule import values
from mslang.schedule.asked import Scheduled, Truth, concrete, fits, method
from mslang.schedule.decisions import Drawing
from mslang.schedule.expressions import evaluate
from mslang.schedule.frames import Frame, Place
from mslang.schedule.instruction import Value
from mslang.schedule.interpret import NO_NATIVES, Interpreter, Native, Natives, World
from mslang.schedule.items import ItemValue, SizedProgram
from mslang.schedule.memo import exact
from mslang.schedule.session import Session
from mslang.schedule.space import Space
from mslang.schedule.statements import run_body
from mslang.schedule.strategies import machine_of, space_of_value
from mslang.schedule.values import describe
from mslang.sema.intrin import intrin_from
from mslang.sema.module import Module
from mslang.sema.report import failure
from mslang.syntax import tree
from mslang.syntax.literals import LONG_QUOTE, quote
from mslang.transform.primitives.tensorize import as_instruction

Equivalence = Callable[[Program, Program, float, float, int], str | None]
"""Runs a program and its scheduled form on the same inputs (relative and absolute tolerance, seed); returns the
difference, or None if there is none."""


class Snapshot(msgspec.Struct, frozen=True):
    """An executed `snapshot`: the place of its text in the file, the expected and the actual text."""

    span: Span
    expected: str
    found: str

    @property
    def passed(self) -> bool:
        """Whether expected and actual text are equal, except for layout."""
        return _plain(self.expected) == _plain(self.found)


class TestResult(msgspec.Struct, frozen=True):
    """The result of a test. `diagnostics` are the failures, `checks` counts passed checks, `skipped` lists parts that
    could not run."""

    __test__: ClassVar[bool] = False  # not a test for pytest, despite its name

    title: str
    path: str
    span: Span
    diagnostics: tuple[Diagnostic, ...] = ()
    checks: int = 0
    snapshots: tuple[Snapshot, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the test passed."""
        return not self.diagnostics


def run_test(
    module: Module,
    placed: tree.PlacedItem,
    equivalence: Equivalence,
    natives: Natives = NO_NATIVES,
) -> TestResult:
    """Run one test item of a module.

    Args:
        module: the module.
        placed: the test.
        equivalence: the comparison that `equiv` uses.
        natives: the implementations of other native names.
    """
    item = placed.item
    assert isinstance(item, tree.Test)
    runner = _Runner(equivalence, natives)
    diagnostics: tuple[Diagnostic, ...] = ()
    try:
        runner.run(item, Place(module, module.path, placed.start, placed.parsed.text))
    except MsError as error:
        diagnostics = error.diagnostics
    found = tuple(s.diagnostic(module.path) for s in runner.failed)
    return TestResult(
        item.title.value,
        module.path,
        item.title.span.shifted(placed.start),
        (*diagnostics, *found),
        runner.checks,
        tuple(runner.snapshots),
        tuple(runner.skipped),
    )


def updated(text: str, results: Sequence[TestResult]) -> str:
    """A file's text with failed snapshots replaced by the actual text."""
    wrong = {s.span: s for r in results for s in r.snapshots if not s.passed}
    for span in sorted(wrong, reverse=True):
        line = text.rfind("\n", 0, span.start) + 1
        indent = " " * (len(text[line : span.start]) - len(text[line : span.start].lstrip()))
        lines = "".join(f"{indent}    {x}\n" if x else "\n" for x in _plain(wrong[span].found).split("\n"))
        literal = f'"""\n{lines}{indent}"""' if LONG_QUOTE not in lines else quote(_plain(wrong[span].found))
        text = f"{text[: span.start]}{literal}{text[span.end :]}"
    return text


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in dedent(text).strip().split("\n"))


class _Failed(msgspec.Struct, frozen=True):
    snapshot: Snapshot

    def diagnostic(self, path: str) -> Diagnostic:
        why = f"found: {_plain(self.snapshot.found)}"
        return Diagnostic(
            "MS268",
            "the snapshot differs",
            self.snapshot.span,
            why=why,
            help="`mslang test --update` rewrites it",
            path=path,
        )


class _Runner:
    """The run of one test; collects its checks and snapshots."""

    def __init__(self, equivalence: Equivalence, natives: Natives) -> None:
        self._equivalence = equivalence
        self.checks = 0
        self.snapshots: list[Snapshot] = []
        self.skipped: list[str] = []
        self._spaces: list[tuple[tuple[object, ...], Space]] = []
        own: dict[str, Native] = {
            "std.testing.equiv": self._equiv,
            "std.testing.implements": self._implements,
            "std.testing.fits": fits,
        }
        self._natives = natives
        self._world = World(
            natives=MappingProxyType({**natives, **own}),
            functions=MappingProxyType({"sample": self._sample, "apply": self._apply}),
            receivers=(Scheduled, SizedProgram),
            method=method,
            judge=self._judge,
        )

    @property
    def failed(self) -> tuple[_Failed, ...]:
        """The failed snapshots."""
        return tuple(_Failed(s) for s in self.snapshots if not s.passed)

    def run(self, item: tree.Test, place: Place) -> None:
        """Run the test's statements; a check that fails ends it."""
        session = Session(Program("test", (), ()), Drawing(0))
        run_body(Interpreter(session, self._world), item.body, Frame(place))

    # ------------------------------------------------------------------ check, snapshot
    def _judge(self, it: Interpreter, s: tree.Check | tree.Snapshot, frame: Frame) -> None:
        match s:
            case tree.Check(condition=condition, why=why):
                truth = self._truth(it, condition, frame)
                if not truth.holds:
                    text = " ".join(frame.place.text[condition.span.start : condition.span.end].split())
                    raise failure("MS268", s, f"check failed: {why.value if why is not None else text}", why=truth.why)
                self.checks += truth.judged
                self.skipped += truth.skipped
            case tree.Snapshot(value=value, text=text):
                found = evaluate(it, value, frame)
                self.snapshots.append(Snapshot(text.span.shifted(frame.place.start), text.value, _shown(found)))

    def _truth(self, it: Interpreter, e: tree.Expr, frame: Frame) -> Truth:
        if isinstance(e, tree.Binary) and e.op in ("==", "!=", "<", "<=", ">", ">="):
            left, right = evaluate(it, e.left, frame), evaluate(it, e.right, frame)
            why = f"the left side is {_shown(left)}, the right side {_shown(right)}"
            return Truth(values.combine(e.op, left, right) is True, why)
        found = evaluate(it, e, frame)
        match found:
            case Truth():
                return found
            case bool():
                return Truth(found)
        raise failure("MS203", e, f"`check` takes a condition, not {describe(found)}")

    # ------------------------------------------------------------------ functions of tests
    def _sample(
        self,
        it: Interpreter,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        e: tree.Call,
        frame: Frame,
    ) -> object:
        if len(args) not in (2, 3) or not isinstance(args[0], ItemValue) or not isinstance(args[1], SizedProgram):
            raise ScheduleError(problem("MS205", "`sample` takes a space or schedule, a program and a seed"))
        pins = dict(kwargs)
        seed = args[2] if len(args) == 3 else pins.pop("seed", 0)
        if not isinstance(seed, int):
            raise ScheduleError(problem("MS203", "`seed` is a number"))
        return Scheduled(self._space(args[0], args[1]).sample(seed, _pins(pins)))

    def _apply(
        self,
        it: Interpreter,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        e: tree.Call,
        frame: Frame,
    ) -> object:
        if len(args) != 2 or not isinstance(args[0], ItemValue) or not isinstance(args[1], SizedProgram):
            raise ScheduleError(problem("MS205", "in a test `apply` takes a rule and a program"))
        return Scheduled(self._space(args[0], args[1]).sample(0))

    def _space(self, value: ItemValue, of: SizedProgram) -> Space:
        program = concrete(of)
        sizes = {n: v for n, v in of.values.items() if isinstance(v, int)}
        # The text of a call does not tell its arguments, which may be variables of a loop.
        key = (id(value.found.item), value.text, exact(value.args), exact(value.kwargs), of.sizes, program)
        known = next((space for other, space in self._spaces if other == key), None)
        if known is None:
            world = World(machine=machine_of(value.found), natives=self._natives)
            known = space_of_value(value, program, world, sizes)
            self._spaces.append((key, known))
        return known

    def _equiv(self, it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        if len(args) != 2 or not isinstance(args[0], SizedProgram):
            raise ScheduleError(problem("MS205", "`equiv` takes a program and a scheduled form of it"))
        program = concrete(args[0])
        match args[1]:
            case Scheduled(candidate=candidate):
                scheduled = candidate.program
            case ItemValue() as value:
                scheduled = self._space(value, args[0]).sample(0).program
            case SizedProgram() as other:
                scheduled = concrete(other)
            case other:
                raise ScheduleError(problem("MS203", f"`equiv` takes a scheduled program, not {describe(other)}"))
        try:
            difference = self._equivalence(program, scheduled, *_tolerances(kwargs))
        except TargetError as error:
            return Truth(True, None, (error.diagnostic.message,), judged=False)
        return Truth(difference is None, difference)

    def _implements(self, it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Whether each implementation of an intrinsic that can run here computes the intrinsic's description."""
        if len(args) != 1 or not isinstance(args[0], ItemValue) or not isinstance(args[0].item, tree.Intrin):
            raise ScheduleError(problem("MS205", "`implements` takes an intrinsic"))
        intrin = intrin_from(args[0].found, args[0].text)
        skipped: list[str] = []
        each = implementations(intrin)
        for how, program in each:
            try:
                difference = self._equivalence(intrin.desc, program, *_tolerances(kwargs))
            except TargetError as error:
                skipped.append(f"{intrin.name}, {how}: {error.diagnostic.why or error.diagnostic.message}")
                continue
            if difference is not None:
                return Truth(False, f"{how}: {difference}", tuple(skipped))
        return Truth(True, None, tuple(skipped), judged=len(skipped) < len(each))


def _tolerances(kwargs: Mapping[str, object]) -> tuple[float, float, int]:
    rtol, atol, seed = kwargs.get("rtol", 1e-5), kwargs.get("atol", 1e-6), kwargs.get("seed", 0)
    if not (isinstance(rtol, int | float) and isinstance(atol, int | float) and isinstance(seed, int)):
        raise ScheduleError(problem("MS203", "the tolerances and the seed are numbers"))
    return rtol, atol, seed


def implementations(intrin: Intrin) -> tuple[tuple[str, Program], ...]:
    """The implementations of an intrinsic, each as a program of its own with a name."""
    own = () if intrin.program is None else (("the program", as_instruction(replace(intrin, texts=()))),)
    return (
        *own,
        *((f"the {b} text", as_instruction(replace(intrin, program=None, texts=((b, t),)))) for b, t in intrin.texts),
    )


def _pins(pins: Mapping[str, object]) -> dict[str, Value]:
    wrong = next((a for a, v in pins.items() if not isinstance(v, bool | int | float | str | tuple)), None)
    if wrong is not None:
        raise ScheduleError(problem("MS203", f"`{wrong}` is pinned to {describe(pins[wrong])}"))
    return {a: v for a, v in pins.items() if isinstance(v, bool | int | float | str | tuple)}


def _shown(value: object) -> str:
    match value:
        case str():
            return value
        case ItemValue(text=text):
            return text
        case SizedProgram():
            return print_program(concrete(value))
        case Scheduled():
            return print_program(value.program)
        case tuple():
            return "[" + ", ".join(_shown(x) for x in value) + "]"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
    return describe(value)
