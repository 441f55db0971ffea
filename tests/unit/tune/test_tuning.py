"""Tuning from start to end with made-up measurements: budgets, signals, runs, records known before."""

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import chaos
import msgspec
import pytest
from test_search import TEXT, WELL, drawn, space

from mslang.backend.backend import BackEnd
from mslang.backend.llvm.backend import LLVM
from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash
from mslang.runtime.timing import Limits
from mslang.schedule.interpret import World
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.space import Candidate, Space
from mslang.schedule.strategies import space_of
from mslang.search.features.extractor import PerStore
from mslang.search.models.model import DraftModel
from mslang.search.mutators import MUTATORS
from mslang.search.replay_trace import ReplayTrace, distinct_candidates
from mslang.search.strategy import Factory, Observed, Problem, Rejections
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, GENERIC
from mslang.target.machine import Machine
from mslang.tune import claim as claim_module
from mslang.tune import database as database_module
from mslang.tune import runs as runs_module
from mslang.tune import session as session_module
from mslang.tune import task as task_module
from mslang.tune import tune as tune_module
from mslang.tune.budget import Budget
from mslang.tune.claim import claimed_run
from mslang.tune.confirm import REMEASURED
from mslang.tune.connection import MEMORY
from mslang.tune.database import Database
from mslang.tune.instances import Instance
from mslang.tune.planning import problem_of
from mslang.tune.progress import Event, Finished, Preparing, Started, Tally, Trial, Warned
from mslang.tune.record import INCUMBENT, Outcome, Record, Sources
from mslang.tune.recording import candidate_of
from mslang.tune.roofline import Roofline, rated_dtype
from mslang.tune.runs import run_of
from mslang.tune.scale import Scale
from mslang.tune.task import Settings, Task
from mslang.tune.tune import tune
from mslang.tune.upkeep import Pruning, prunable
from mslang.tune.workers import Work


@pytest.fixture(autouse=True)
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up times are no business of this machine's peak."""
    monkeypatch.setattr(session_module, "roofline_of", lambda task: Roofline(task.program, lambda _: 1e15))
    monkeypatch.setattr(tune_module, "raise_peak", lambda rate: None)


def go(
    folder: Path,
    work: Work = WELL,
    *,
    seed: int = 3,
    budget: Budget | None = None,
    resume: bool = False,
    incumbent: Candidate | None = None,
    listen: Callable[[Event], None] = lambda _: None,
    workers: int = 1,
    cache: Literal["warm", "cold"] | None = None,
    backend: BackEnd | None = None,
    where: Space | None = None,
    sizes: tuple[Instance, ...] = (),
    strategy: Factory | str = "replay_trace",
) -> Finished:
    found = space() if where is None else where
    return tune(
        Task(found.program, found, GENERIC, "gemm.ms", backend=backend, instances=sizes),
        Settings(seed, budget or Budget(8), Limits(cache=cache), strategy=strategy),
        database=folder / "r.db",
        workers=workers,
        resume=resume,
        work=work,
        incumbent=incumbent,
        listen=listen,
    )


DEADLY = Work(chaos.prepare, chaos.build_well, chaos.prepare_and_die)


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    first = go(tmp_path)
    told: list[Event] = []
    # A measurement would crash now.
    second = go(tmp_path, DEADLY, listen=told.append)
    assert [e.known for e in told if isinstance(e, Trial)] == [True] * 8
    assert second.known == 8 and second.confirmed and first.known == 0
    assert second.best is not None and first.best is not None and second.best.candidate == first.best.candidate


def test_times_with_warm_and_with_cold_caches_do_not_stand_for_each_other(tmp_path: Path) -> None:
    gpu, work = (
        msgspec.structs.replace(LLVM, caches="cold"),
        Work(chaos.prepare, chaos.build_well, chaos.measure_as_a_gpu),
    )
    go(tmp_path, work, backend=gpu)
    # A measurement would crash now.
    assert go(tmp_path, DEADLY, backend=gpu).known == 8
    assert go(tmp_path, DEADLY, backend=gpu, cache="cold").known == 8
    warm = go(tmp_path, work, backend=gpu, cache="warm")
    assert warm.known == 0 and warm.best is not None and warm.best.cold is False
    # Nor does the strategy know times of the other kind.
    with Database(tmp_path / "r.db") as store:
        records = [r for r in store.records() if isinstance(r, Record)]
    for cache in ("warm", "cold"):
        settings = Settings(limits=Limits(cache=cache))
        known = problem_of(Task(space().program, space(), GENERIC, "gemm.ms"), settings, records, lambda: False).known
        assert len(known) == sum(r.cold is (cache == "cold") for r in records) > 8
    # A run goes on as it was begun.
    resumed = go(tmp_path, work, backend=gpu, cache="cold", resume=True, budget=Budget(10))
    assert resumed.best is not None and resumed.best.cold is False


FIVE, SIXTEEN = (Instance({"M": 5}),), (Instance({"M": 16}, 3),)


def test_times_at_different_sizes_do_not_stand_for_each_other(tmp_path: Path) -> None:
    go(tmp_path, sizes=FIVE)
    # A measurement would crash now.
    assert go(tmp_path, DEADLY, sizes=FIVE).known == 8
    other = go(tmp_path, sizes=SIXTEEN)
    assert other.known == 0 and other.best is not None and other.best.result.instances == SIXTEEN
    with Database(tmp_path / "r.db") as store:
        assert [r.result.instances for r in store.top(n=100)] == [SIXTEEN] * 8
    # A run goes on at its sizes alone.
    assert go(tmp_path, sizes=FIVE, budget=Budget(10), resume=True).tally.trials == 10
    with pytest.raises(MsError) as error:
        go(tmp_path, sizes=(*FIVE, *SIXTEEN), resume=True)
    diagnostic = error.value.diagnostic
    assert diagnostic.code == "MS503" and "was timed at M=16:3, not at M=16:3 M=5:1" in str(diagnostic.why)
    assert "--likely" in str(diagnostic.help)


def draft_of(names: Sequence[str], seed: int) -> DraftModel:
    """A cost model of the user's own."""
    return DraftModel()


def test_a_run_is_resumed_with_the_settings_that_it_began_with(tmp_path: Path) -> None:
    found = space()
    task = Task(found.program, found, GENERIC, "gemm.ms")
    asked = Settings(9, strategy="exhaustive", cost_model="draft", features="own")
    with Database(tmp_path / "r.db") as store:
        for began in (Settings(3, strategy="evolutionary", cost_model="random", features="shapes"), Settings(4)):
            run, _ = run_of(store, task, began, False)
            planned = began.budget.trials
            assert run_of(store, task, asked, True) == (run, msgspec.structs.replace(began, planned=planned))


@pytest.mark.parametrize("own", [{"strategy": ReplayTrace}, {"cost_model": draft_of}, {"features": PerStore()}])
def test_a_run_with_a_value_of_the_users_own_is_resumed_where_it_is_given_again(
    tmp_path: Path, own: dict[str, Any]
) -> None:
    found = space()
    task = Task(found.program, found, GENERIC, "gemm.ms")
    [(what, value)] = own.items()
    ours = Settings(**own)
    with Database(tmp_path / "r.db") as store:
        run, _ = run_of(store, task, ours, False)
        with pytest.raises(MsError, match="MS503") as error:
            run_of(store, task, Settings(), True)
        defined = f"{what}={value.__module__}.{getattr(value, '__qualname__', 'PerStore')}, this search has {what}="
        assert defined in str(error.value) and f"give `{what}` as it began" in str(error.value)
        again, settings = run_of(store, task, ours, True)
        assert again == run and getattr(settings, what) is value
        # Each search goes on with the last run like it.
        plain, _ = run_of(store, task, Settings(), False)
        assert [run_of(store, task, s, True)[0] for s in (Settings(), ours)] == [plain, run]
    with Database(tmp_path / "plain.db") as store:
        run_of(store, task, Settings(), False)
        with pytest.raises(MsError, match="MS503"):
            run_of(store, task, ours, True)


def test_a_run_with_mutators_of_its_own_is_resumed_where_the_same_are_given(tmp_path: Path) -> None:
    found = space()
    task = Task(found.program, found, GENERIC, "gemm.ms")
    first, *rest = MUTATORS
    ours = Settings(mutators=(first,))
    with Database(tmp_path / "r.db") as store:
        run, _ = run_of(store, task, ours, False)
        for others in (None, (first, *rest), tuple(rest)):
            with pytest.raises(MsError, match="MS503") as error:
                run_of(store, task, Settings(mutators=others), True)
            assert "mutators=mslang.search.mutators.MutateDecision 'tile size', this" in str(error.value)
        again, settings = run_of(store, task, Settings(mutators=(first,)), True)
        assert again == run and settings.mutators == ours.mutators


def test_a_run_that_something_else_compiled_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(tmp_path)
    with pytest.raises(MsError) as error:
        go(tmp_path, backend=msgspec.structs.replace(LLVM, version=lambda: "llvm 99"), resume=True)
    diagnostic = error.value.diagnostic
    assert diagnostic.code == "MS503" and str(diagnostic.why).endswith(f"{LLVM.version()}, not with llvm 99")
    with monkeypatch.context() as later, pytest.raises(MsError) as error:
        later.setattr(runs_module, "__version__", "99.0")
        go(tmp_path, resume=True)
    assert error.value.diagnostic.code == "MS503" and "this is mslang 99.0" in str(error.value.diagnostic.why)
    assert go(tmp_path, budget=Budget(10), resume=True).tally.trials == 10


@pytest.mark.parametrize("arguments", ["[", "[]", '{"budget": 3}', '{"seed": 5, "drawn": 5}'])
def test_a_run_with_arguments_that_cannot_be_read_is_not_resumed(tmp_path: Path, arguments: str) -> None:
    go(tmp_path)
    with Database(tmp_path / "r.db") as store, Database(tmp_path / "imported" / "r.db") as other:
        [run] = store.runs()
        bad = msgspec.structs.replace(run, id="imported", arguments=arguments, created="2999")
        store.add_run(bad)
        other.add_run(bad)
    with pytest.raises(MsError) as error:
        go(tmp_path / "imported", resume=True)
    diagnostic = error.value.diagnostic
    assert diagnostic.code == "MS503" and "the arguments of run imported cannot be read" in str(diagnostic.why)
    assert go(tmp_path, budget=Budget(10), resume=True).tally.trials == 10


def records_of(folder: Path, run: str) -> list[Record]:
    with Database(folder / "r.db") as store:
        return [r for r in store.records(run=run) if isinstance(r, Record)]


def test_what_is_taken_over_is_a_trial_of_the_run_that_takes_it_over(tmp_path: Path) -> None:
    first = go(tmp_path, seed=7, budget=Budget(30))
    assert first.best is not None
    before = records_of(tmp_path, first.best.run)
    told: list[Event] = []
    found = space()
    task = Task(found.program, found, GENERIC, "gemm.ms", Sources(space="edited"))
    settings = Settings(3, Budget(30), strategy="replay_trace")
    done = tune(task, settings, database=tmp_path / "r.db", workers=1, work=WELL, listen=told.append)
    trials = [e for e in told if isinstance(e, Trial)]
    assert 0 < done.known < 30 and [e.record.trial for e in trials] == list(range(30))
    [run] = {e.run for e in told if isinstance(e, Started)}
    assert {(e.record.run, e.record.seed, e.record.sources.space) for e in trials} == {(run, 3, "edited")}
    # The other run has what it had: what was taken over and measured again is of this run.
    assert records_of(tmp_path, first.best.run) == before
    own = records_of(tmp_path, run)
    numbers = {e.record.candidate: e.record.trial for e in trials}
    assert {(r.seed, r.sources.space) for r in own} == {(3, "edited")} and done.best in own
    assert all(r.trial == numbers[r.candidate] for r in own)
    taken_over = {e.record.candidate for e in trials if e.known}
    assert taken_over & {r.candidate for r in own}, "none of the finalists was taken over"


def test_a_best_that_was_taken_over_is_kept_beside_the_records_of_the_run(tmp_path: Path) -> None:
    times = [chaos.seconds(c.program) for c in drawn(44)]
    assert min(times[40:]) > sorted(times)[REMEASURED - 1]
    first = go(tmp_path, budget=Budget(40))
    told: list[Event] = []
    done = go(tmp_path, budget=Budget(44), listen=told.append)
    [run] = {e.run for e in told if isinstance(e, Started)}
    assert first.best is not None and done.best is not None and done.known == 40
    assert done.best in records_of(tmp_path, run) and done.best.result == first.best.result
    # A run that tried nothing else has no records.
    again = go(tmp_path, DEADLY, budget=Budget(40))
    assert again.known == 40 and again.best is not None and again.best.id == done.best.id


def test_a_resumed_run_shows_its_strategy_the_times_that_it_took_over(tmp_path: Path) -> None:
    """Not those of the second measurement, which are its own records of these candidates."""

    def costs(folder: str, *budgets: int) -> list[tuple[str, float | None]]:
        seen: list[tuple[str, float | None]] = []

        class Noting(ReplayTrace):
            def observe(self, observed: Sequence[Observed]) -> None:
                seen.extend((o.hash, o.cost) for o in observed)

        for k, budget in enumerate(budgets):
            seen.clear()
            slower = Work(chaos.prepare, chaos.build_well, chaos.measure_slower_when_looked_at_closely)
            go(tmp_path / folder, slower, budget=Budget(budget), resume=k > 0, strategy=Noting)
        return seen

    for folder in ("whole", "parts"):
        go(tmp_path / folder, budget=Budget(10))
    assert costs("whole", 32) == costs("parts", 20, 32)


def tiled(text: str, name: str = "tiled") -> Space:
    return space_of(load("gemm.ms", text), name, world=World(machine=GENERIC))


def test_what_another_space_measured_is_taken_over_in_the_words_of_this_one(tmp_path: Path) -> None:
    go(tmp_path, budget=Budget(100))
    other = tiled(re.sub(r"\bt([ij])\b", r"tile_\1", TEXT).replace("tiled", "other"), "other")
    told: list[Event] = []
    # Some of the finalists are not confirmed yet: they are made again, from what is on record.
    done = go(tmp_path, where=other, budget=Budget(10), listen=told.append)
    assert done.known == 10 and done.confirmed and done.best is not None
    for record in (done.best, *(e.record for e in told if isinstance(e, Trial))):
        assert set(msgspec.json.decode(record.decisions)) == {"tile_i", "tile_j"}
        assert "= other with {" in record.schedule and "tile_i ~ perfect_tile" in record.trace
    assert structural_hash(candidate_of(done.best, other).program) == done.best.candidate


def test_a_record_stands_for_the_program_that_was_measured_whatever_its_decisions_mean_now(tmp_path: Path) -> None:
    best = go(tmp_path, budget=Budget(20)).best
    assert best is not None
    swapped = tiled(TEXT.replace("mm.i.split(ti)", "mm.i.split([_, 2, ti[1]])").replace("i0, i1 =", "i0, i2, i1 ="))
    assert structural_hash(swapped.replay(msgspec.json.decode(best.decisions)).program) != best.candidate
    assert structural_hash(candidate_of(best, swapped).program) == best.candidate
    with pytest.raises(MsError) as error:
        candidate_of(msgspec.structs.replace(best, trace=best.trace.replace("reorder", "# ")), swapped)
    assert error.value.diagnostic.code == "MS610"


def test_a_finalist_that_can_no_longer_be_made_gives_way_to_the_next(tmp_path: Path) -> None:
    first = go(tmp_path)
    assert first.best is not None
    with Database(tmp_path / "r.db") as store:
        store.add(msgspec.structs.replace(first.best, decisions="{}", trace="schedule best for gemm { }", id=None))
    done = go(tmp_path, resume=True)
    assert done.confirmed and done.best is not None and done.best.candidate != first.best.candidate
    assert done.tally.outcomes[Outcome.ILLEGAL] == 1


ANOTHER = "let ti ~ perfect_tile(mm.i, n = 2, max_inner = 32)\n    let more ~ choose([1, 2])"


def test_a_run_whose_space_was_edited_is_not_resumed(tmp_path: Path) -> None:
    go(tmp_path)
    first, _, rest = TEXT.partition("let ti ~ perfect_tile(mm.i, n = 2, max_inner = 32)")
    edited = tiled(f"{first}{ANOTHER}{rest}")
    with pytest.raises(MsError) as error:
        go(tmp_path, where=edited, resume=True)
    diagnostic = error.value.diagnostic
    assert diagnostic.code == "MS503" and "made other candidates than tiled makes now" in str(diagnostic.why)
    go(tmp_path, where=edited)
    # The last run of the space as it is now goes on, though it is not the last of its name.
    beside = tiled(f"{TEXT}schedule best for gemm {{ mm.i.parallel() }}")
    assert go(tmp_path, where=beside, budget=Budget(12), resume=True).tally.trials == 12


def test_a_run_of_other_rules_is_not_resumed(tmp_path: Path) -> None:
    program = parse_program(TEXT.partition("schedule")[0])
    go(tmp_path, where=space_named(program, AVX2, "quick"))
    with pytest.raises(MsError) as error:
        go(tmp_path, where=automatic_space(program, AVX2), resume=True)
    assert error.value.diagnostic.code == "MS503"


def test_records_of_another_machine_are_neither_reused_nor_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(tmp_path)
    monkeypatch.setattr(task_module, "this_machine", lambda: Machine("another", "zen × 96"))
    monkeypatch.setattr(database_module, "this_machine", lambda: Machine("another", "zen × 96"))
    told: list[Event] = []
    done = go(tmp_path, listen=told.append)
    assert not any(e.known for e in told if isinstance(e, Trial)) and done.known == 0
    assert done.best is not None and done.best.device == "zen × 96"
    monkeypatch.setattr(task_module, "this_machine", lambda: Machine("a third", "m1 × 8"))
    with pytest.raises(MsError) as error:
        go(tmp_path, resume=True)
    assert error.value.diagnostic.code == "MS503"


def test_the_standing_schedule_stays_unless_a_faster_one_is_found(tmp_path: Path) -> None:
    candidates = sorted(drawn(60), key=lambda c: chaos.seconds(c.program))
    fastest, slowest = candidates[0], candidates[-1]
    early = {structural_hash(c.program) for c in drawn(8)}
    assert structural_hash(fastest.program) not in early
    done = go(tmp_path, incumbent=fastest)
    assert done.best is not None and done.best.candidate == structural_hash(fastest.program)
    assert done.tally.trials == 8
    done = go(tmp_path, incumbent=slowest)
    assert done.best is not None and done.best.candidate in early


def test_an_incumbent_that_was_proposed_too_is_known_as_one(tmp_path: Path) -> None:
    early = sorted(drawn(8), key=lambda c: chaos.seconds(c.program))
    fastest, slowest = (structural_hash(c.program) for c in (early[0], early[-1]))
    done = go(tmp_path, incumbent=early[-1])
    assert done.best is not None and done.best.candidate == fastest and done.tally.trials == 8
    with Database(tmp_path / "r.db") as store:
        found = [r for r in store.records() if isinstance(r, Record)]
        assert {r.candidate for r in found if r.trial == INCUMBENT} == {slowest}
        left = {r.candidate for r in found} - {r.candidate for r in found if r.id in prunable(found, Pruning(keep=1))}
    assert left == {fastest, slowest}, "without its time the best is not known to be faster"
    # A resumed run counts both of its records, once.
    again = go(tmp_path, incumbent=early[-1], resume=True)
    assert again.tally.trials == 8 and again.best is not None and again.best.candidate == fastest


def test_a_budget_that_does_not_suffice_for_the_preparation(tmp_path: Path) -> None:
    with pytest.raises(MsError) as error:
        go(tmp_path, Work(chaos.prepare_forever), budget=Budget(None, 0.5))
    assert error.value.diagnostic.code == "MS513"


def test_a_budget_ends_a_trial_that_hangs(tmp_path: Path) -> None:
    done = go(tmp_path, Work(chaos.prepare, chaos.build_well, chaos.measure_forever), budget=Budget(None, 9.0))
    assert done.reason == "the budget of 9 s is spent" and done.best is None and not done.confirmed


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_reference_runs_is_an_interruption(tmp_path: Path, number: signal.Signals) -> None:
    def hear(event: Event) -> None:
        if isinstance(event, Preparing):
            threading.Timer(0.3, os.kill, (os.getpid(), number)).start()

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, Work(chaos.prepare_forever), listen=hear)
    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_search_keeps_what_was_found(tmp_path: Path, number: signal.Signals) -> None:
    def hear(event: Event) -> None:
        if isinstance(event, Trial) and event.record.trial == 3:
            os.kill(os.getpid(), number)

    done = go(tmp_path, budget=Budget(1000), listen=hear)
    assert done.interrupted and done.best is not None
    assert done.confirmed is (number == signal.SIGINT)


@pytest.mark.parametrize("stop", [3, 20])
def test_patience_ends_a_resumed_run_where_it_ends_the_uninterrupted_one(tmp_path: Path, stop: int) -> None:
    def tried(folder: str, stop: int | None = None, resume: bool = False) -> list[str]:
        """The candidates of a run, some of which another run has tried."""
        told: list[str] = []

        def hear(event: Event) -> None:
            if isinstance(event, Trial):
                told.append(event.record.candidate)
                if len(told) == stop:
                    raise KeyboardInterrupt

        go(tmp_path / folder, seed=4, budget=Budget(60, patience=25), resume=resume, listen=hear)
        return told

    for folder in ("whole", "parts"):
        go(tmp_path / folder, seed=7, budget=Budget(20))
    whole = tried("whole")
    parts = [*tried("parts", stop), *tried("parts", resume=True)]
    # Those that are known are reported again when the run that was resumed proposes them again.
    assert len(whole) == 26 and list(dict.fromkeys(parts)) == whole


def test_a_resumed_run_begins_with_its_best(tmp_path: Path) -> None:
    first = go(tmp_path)
    told: list[Event] = []
    done = go(tmp_path, budget=Budget(20), resume=True, listen=told.append)
    [started] = [e for e in told if isinstance(e, Started)]
    assert started.best == first.best
    best = first.best
    for event in told:
        if isinstance(event, Trial):
            assert event.better is (best is None or (event.record.cost or 9.0) < (best.cost or 0.0))
            best = event.record if event.better else best
    assert done.best is not None and best is not None and done.best.candidate == best.candidate


@pytest.mark.usefixtures("default_signals")
def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As `nohup` starts a program: the search outlives the terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ignored: list[bool] = []

    def hear(event: Event) -> None:
        if isinstance(event, Preparing | Trial):
            ignored.append(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
            os.kill(os.getpid(), signal.SIGHUP)

    done = go(tmp_path, listen=hear)
    assert not done.interrupted and done.confirmed and done.tally.trials == 8
    assert ignored == [True] * 9 and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


HOLDER = """
import sys
from pathlib import Path
from mslang.tune.claim import claimed_run
with claimed_run(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_goes_on_in_one_process_at_a_time(tmp_path: Path) -> None:
    told: list[Event] = []
    go(tmp_path, listen=told.append)
    run = next(e.run for e in told if isinstance(e, Started))
    words = [sys.executable, "-c", HOLDER, str(tmp_path / "r.db"), run]
    holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(MsError) as error:
        go(tmp_path, budget=Budget(10), resume=True)
    assert error.value.diagnostic.code == "MS607"
    with claimed_run(tmp_path / "r.db", "another"):
        pass
    holder.kill()
    holder.wait(60)
    assert go(tmp_path, budget=Budget(10), resume=True).tally.trials == 10


def test_another_claim_of_this_process_leaves_a_claim_alone(tmp_path: Path) -> None:
    store = tmp_path / "r.db"

    def is_held() -> bool:
        words = [sys.executable, "-c", HOLDER, str(store), "a"]
        other = subprocess.run(words, input="", capture_output=True, text=True)
        assert other.stdout == "held\n" or "in use by another" in other.stderr
        return other.stdout == ""

    with claimed_run(store, "a"):
        with claimed_run(store, "another"):
            pass
        assert is_held()
        with pytest.raises(MsError) as error, claimed_run(store, "a"):
            pass
        assert error.value.diagnostic.code == "MS607" and is_held()
    assert not is_held()


def test_a_run_that_cannot_be_claimed_is_not_said_to_be_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    (tmp_path / "r.db-lock").mkdir()
    with pytest.raises(MsError) as error, claimed_run(tmp_path / "r.db", "a"):
        pass
    assert error.value.diagnostic.code == "MS603" and error.value.diagnostic.why == "Is a directory"
    monkeypatch.setattr(claim_module, "_lock", without_locks)
    with pytest.raises(MsError) as error, claimed_run(tmp_path / "s.db", "a"):
        pass
    assert error.value.diagnostic.code == "MS603" and error.value.diagnostic.why == "No locks available"
    # What goes wrong while the run is held is something else.
    monkeypatch.setattr(claim_module, "_lock", lambda *_: None)
    with pytest.raises(FileNotFoundError), claimed_run(tmp_path / "s.db", "a"):
        raise FileNotFoundError


def test_a_store_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with claimed_run(Path(MEMORY), "a"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_removed_during_a_run_loses_nothing(tmp_path: Path) -> None:
    told: list[Event] = []

    def hear(event: Event) -> None:
        told.append(event)
        if isinstance(event, Trial) and event.record.trial == 3:
            for file in tmp_path.glob("r.db*"):
                file.unlink()

    done = go(tmp_path, listen=hear)
    assert [e.diagnostic.code for e in told if isinstance(e, Warned)] == ["MS606"]
    shown = {e.record.candidate for e in told if isinstance(e, Trial)}
    with Database(tmp_path / "r.db", read_only=True) as store:
        assert {r.candidate for r in store.top(n=100)} == shown
        assert store.best(space().program) == done.best


DEAD = """
program p[N = 64](X: f32[N], out Z: f32[N]) {
    alloc a: f32[N]
    alloc b: f32[N]
    block one[i: N] { a[i] = X[i] + 1.0 }
    block two[i: N] { b[i] = a[i] * 2.0 }
    block three[i: N] { Z[i] = b[i] - 1.0 }
}
schedule half for p {
    let t ~ choose([4, 8])
    let i0, i1 = three.i.split([_, t])
    fork place {
        case apart { one.compute_at(i0) }
        case inlined { one.compute_inline() }
    }
}
schedule dead for p {
    let t ~ choose([4, 8])
    let i0, i1 = three.i.split([_, t])
    one.compute_at(i0)
}
schedule fixed for p { three.i.vectorize() }
"""


@pytest.mark.parametrize(
    ("name", "candidates", "illegal"),
    [("half", 2, "with place = apart no draw is legal"), ("dead", 0, "no draw is legal"), ("fixed", 1, "")],
)
def test_cases_that_are_never_legal_are_counted_once(name: str, candidates: int, illegal: str) -> None:
    space = space_of(load("dead.ms", DEAD), name, world=World(machine=GENERIC))
    rejections, tally = Rejections(), Tally()
    found = list(distinct_candidates(Problem(space, GENERIC), rejections))
    tally.reject(rejections)
    assert len(found) == candidates
    assert tally.outcomes[Outcome.ILLEGAL] == bool(illegal)
    assert all(illegal in why for _, why in tally.reasons)
    if not illegal:
        assert not tally.outcomes


@pytest.mark.parametrize(
    ("parameters", "stored", "dtype"),
    [
        ("a: f32[8], out c: f32[8]", "a[i]", "f32"),
        ("a: f64[8], out c: f64[8]", "a[i]", "f64"),
        ("a: i8[8], out c: i32[8]", "i32(a[i])", "i8"),
        ("a: i8[8], d: u8[8], out c: i32[8]", "i32(a[i]) * i32(d[i])", "i8"),
        ("a: i8[8], out c: i8[8]", "a[i]", None),
        ("a: i8[8], d: bf16[8], out c: i32[8]", "i32(a[i])", None),
        ("a: bf16[8], out c: f32[8]", "f32(a[i])", "bf16"),
        ("a: bf16[8], d: f32[8], out c: bf16[8]", "bf16(f32(a[i]) * d[i])", "bf16"),
        ("a: f16[8], out c: f16[8]", "a[i]", "f16"),
        ("a: f32[8], out c: f64[8]", "f64(a[i])", None),
        ("a: i8[8], out c: f32[8]", "f32(a[i])", None),
        ("a: i32[8], out c: i32[8]", "a[i]", None),
    ],
)
def test_only_programs_of_one_rated_type_are_rated(parameters: str, stored: str, dtype: str | None) -> None:
    text = f"program p({parameters}) {{ block b[i: 8] {{ c[i] = {stored} }} }}"
    assert rated_dtype(parse_program(text)) == dtype


def test_shares_are_of_the_peak_at_the_speed_of_the_moment() -> None:
    scale = Scale(1_000_000, 100e9, 50e9)
    timing = chaos.timed(1e-4, False).timing
    assert timing is not None
    assert scale.share(timing) == pytest.approx(0.1)
    slow = msgspec.structs.replace(timing, yardstick=25e9)
    assert scale.share(slow) == pytest.approx(0.2) and scale.speed(slow) == 0.5
    lucky = msgspec.structs.replace(timing, samples=(1e-6,))
    assert scale.share(lucky) == 1.0 and "100 % of peak" in scale.rate(lucky)
    assert Scale(1_000_000, None, 50e9).rate(timing) == "10 GFLOP/s"
    assert TEXT
