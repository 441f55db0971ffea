"""`ms.tune` and `ms.tune_all` with all that can be chosen of a search: by name, or as values of the user's own."""

from collections.abc import Sequence
from pathlib import Path

import mslang as ms
from mslang.lower.summary import Summary
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.batch.random_words import Stream
from mslang.schedule.sketch import Sketch
from mslang.search.features.buffers import Named
from mslang.search.features.extractor import PerStore
from mslang.search.formulas import Formulas
from mslang.search.leaves import Leaf, Leaves
from mslang.search.models.model import DraftModel
from mslang.search.mutators import MUTATORS, MutateDecision, Part
from mslang.search.replay_trace import ReplayTrace
from mslang.search.roles import Role
from mslang.search.strategy import Problem
from mslang.target.description import Target
from mslang.tune.builder import StandardBuilder
from mslang.tune.progress import Event, Started, Trial
from mslang.tune.record import Record
from mslang.tune.runner import StandardRunner

TEXT = """
program p(A: f32[4096], out C: f32[4096]) { block a[i: 4096] { C[i] = A[i] + 1.0 } }
schedule s for p { let t ~ perfect_tile(a.i, n = 3) let i0, i1, i2 = a.i.split(t) }
"""


class Renamed:
    """Features of the user's own."""

    name = "renamed"

    def rows(self, f: Formulas, sketch: Sketch, summary: Summary, target: Target) -> list[list[Named]]:
        return [[(f"my {name}", x) for name, x in row] for row in PerStore().rows(f, sketch, summary, target)]


def test_a_search_is_given_values_of_the_users_own(tmp_path: Path) -> None:
    problems: list[Problem] = []
    told: list[Event] = []

    def replayed(problem: Problem) -> ReplayTrace:
        problems.append(problem)
        return ReplayTrace(problem)

    def go(trials: int, resume: bool = False) -> Record:
        tuned = ms.tune(
            ms.parse(TEXT).space("s"),
            trials=trials,
            workers=1,
            database=tmp_path / "r.db",
            strategy=replayed,
            cache="cold",
            builder=StandardBuilder("mine"),
            runner=StandardRunner("as usual"),
            callbacks=[told.append],
            log=tmp_path / "logs",
            resume=resume,
        )
        assert tuned.done.best is not None
        return tuned.done.best

    first, again = go(2), go(3, resume=True)
    assert first.run == again.run and [p.trials for p in problems] == [2, 2]
    assert [e.resumed for e in told if isinstance(e, Started)] == [0, 2]
    assert [e.record.trial for e in told if isinstance(e, Trial)] == [0, 1, 2]
    assert first.cold and first.compiler.endswith(", mine") and first.device.endswith(", as usual")
    assert (tmp_path / "logs" / first.run / "trials.jsonl").exists()


def test_several_searches_are_given_values_of_the_users_own_and_names(tmp_path: Path) -> None:
    seen: list[Sequence[str]] = []
    warned: list[Event] = []
    mutated: list[int] = []

    def draft_of(names: Sequence[str], seed: int) -> DraftModel:
        seen.append(names)
        return DraftModel()

    class First(MutateDecision, frozen=True):
        """Mutates as the built-in one does, and says so."""

        def mutate(self, leaf: Leaf, leaves: Leaves, batch: DecisionBatch, stream: Stream) -> Sequence[Part]:
            mutated.append(len(batch))
            return super().mutate(leaf, leaves, batch, stream)

    first = First("mine", 5.0, Role.TILE)
    found = ms.tune_all(
        {"p": ms.parse(TEXT).space("s")},
        trials=17,
        workers=1,
        database=tmp_path / "r.db",
        strategy="evolutionary",
        cost_model=draft_of,
        features=Renamed(),
        mutators=[first, *MUTATORS],
        cache="warm",
        builder=StandardBuilder("mine"),
        runner=StandardRunner("as usual"),
        listen=warned.append,
    )
    best = found["p"].done.best
    assert best is not None and not best.cold
    assert best.compiler.endswith(", mine") and best.device.endswith(", as usual")
    assert mutated and seen and all(".my " in name for name in seen[-1][:-1])
