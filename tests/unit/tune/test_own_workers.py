"""A builder and a runner of a user's own: given from Python, or by name from an allowed package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import mslang as ms
from mslang import extensions
from mslang.diagnostics import MsError
from mslang.target.machine import this_machine
from mslang.tune.builder import Builder, StandardBuilder, builder_named
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Record
from mslang.tune.runner import Runner, StandardRunner, runner_named

PROGRAM = """
program add[N = 256](a: f32[N], b: f32[N], out c: f32[N]) { block s[i: N] { c[i] = a[i] + b[i] } }
schedule tiled for add {
    let t ~ perfect_tile(s.i, n = 2, max_inner = 8)
    let outer, inner = s.i.split(t)
    inner.unroll()
}
"""

PACKAGE = """
    import re

    from msgspec.structs import replace

    from mslang.runtime.timing import Timing
    from mslang.tune.comparison import Compared
    from mslang.tune.job import Built, MeasureJob, measured
    from mslang.tune.builder import StandardBuilder
    from mslang.tune.record import Outcome, Result


    class Instructions:
        "Counts the instructions of the machine code, each as a nanosecond."

        name = "instructions"

        def measure(self, job):
            lines = re.findall(r"^\t[a-z]", job.built.executable.assembly, re.M)
            return measured(job, lambda call, limits, backend: Timing((len(lines) * 1e-9,), 1))

        def compare(self, job):
            jobs = [MeasureJob(p, b, job.reference, job.limits) for p, b in job.candidates]
            return [Compared(self.measure(j)) for j in jobs]


    class Small:
        "Builds as usual, but refuses much code."

        name = "small"

        def build(self, job):
            made = StandardBuilder().build(job)
            if made.result is None and len(made.executable.llvm) > self.most:
                return Built(result=Result(Outcome.COMPILE_ERROR, "too much text"))
            return made

        most = 3000


    class Broken:
        name = "broken"

        def build(self, job):
            raise ZeroDivisionError


    instructions, small, broken = Instructions(), Small(), Broken()
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    info = tmp_path / "my_workers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-workers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[mslang.builders]\nsmall = my_workers:small\nbroken = my_workers:broken\nwrong = my_workers:instructions\n"
        "[mslang.runners]\ninstructions = my_workers:instructions\n"
    )
    (tmp_path / "my_workers.py").write_text(dedent(PACKAGE))
    monkeypatch.syspath_prepend(tmp_path)
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()


def tuned(folder: Path, builder: Builder | None = None, runner: Runner | None = None) -> list[Record]:
    source = ms.parse(PROGRAM)
    path = folder / "r.db"
    ms.tune(source.space("tiled"), trials=4, workers=1, database=path, builder=builder, runner=runner)
    with Database(path) as database:
        return [r for r in database.records() if isinstance(r, Record)]


def test_a_runner_that_counts_instructions_and_a_builder_that_refuses(package: Path) -> None:
    with ms.allowing("my-workers"):
        builder, runner = builder_named("small"), runner_named("instructions")
    assert isinstance(builder, Builder) and isinstance(runner, Runner)
    records = tuned(package, builder, runner)
    outcomes = {r.result.outcome for r in records}
    assert outcomes == {Outcome.MEASURED, Outcome.COMPILE_ERROR}
    assert {r.result.reason for r in records if r.result.outcome is Outcome.COMPILE_ERROR} == {"too much text"}
    # Counts are whole numbers, the same each time, and verified like any other result.
    counts = {(r.candidate, r.seconds) for r in records if r.seconds is not None}
    assert len(counts) == len({candidate for candidate, _ in counts})
    assert all(round(seconds * 1e9) == pytest.approx(seconds * 1e9) for _, seconds in counts)
    assert all(r.result.verified for r in records if r.seconds is not None)
    # They are records of another machine, and of another compiler, than wall times are.
    assert {r.machine for r in records} == {this_machine().with_runner("instructions").key}
    assert all(r.compiler.endswith(", small") for r in records)
    with Database(package / "r.db") as database:
        assert database.top() == []


def test_what_a_builder_raises_is_the_outcome_of_its_candidates(package: Path) -> None:
    with ms.allowing("my-workers"):
        broken = builder_named("broken")
    records = tuned(package, broken)
    assert {r.result.outcome for r in records} == {Outcome.CRASH}
    assert {r.result.reason for r in records} == {"compiling: ZeroDivisionError: "}


def test_only_what_is_allowed_and_fits_is_taken(package: Path) -> None:
    with pytest.raises(MsError) as refused:
        builder_named("small")
    assert refused.value.diagnostic.code == "MS272"
    with ms.allowing("my-workers"), pytest.raises(MsError) as refused:
        builder_named("wrong")
    assert refused.value.diagnostic.code == "MS212" and "Builder" in str(refused.value)
    assert builder_named("") == StandardBuilder() and runner_named("") == StandardRunner()
