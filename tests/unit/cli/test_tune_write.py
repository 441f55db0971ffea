"""What `mslang tune` plans for files of several programs, and what `--write` replaces in them."""

import argparse
from pathlib import Path

import pytest

from mslang.cli.main import main
from mslang.cli.tune_plan import planned
from mslang.cli.tune_write import Chosen, Standing, Written, standing_in, write_all
from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash
from mslang.ir.expr import Const
from mslang.runtime.timing import Timing
from mslang.schedule.replay import space_of_text
from mslang.schedule.space import Candidate
from mslang.sema.modules import load
from mslang.target.named import named_target
from mslang.tune.duplicates import grouped
from mslang.tune.instances import Instance
from mslang.tune.progress import Finished, Tally
from mslang.tune.record import Outcome, Record, Result
from mslang.tune.recording import record_of, texts_of
from mslang.tune.scale import Scale
from mslang.tune.task import Settings
from mslang.tune.tasks import Named

SMALL = """program small(A: f32[64, 64], B: f32[64, 64], out C: f32[64, 64]) {
    block mm[i: 64, j: 64 | k: 64] { C[i, j] += A[i, k] * B[k, j] }
}
"""
GATE = """program gate(P: f32[64, 64], Q: f32[64, 64], out R: f32[64, 64]) {
    block rows[a: 64, b: 64 | c: 64] { R[a, b] += P[a, c] * Q[c, b] }
}
"""
BEST = """schedule gate_best for gate {
    reorder(rows.a, rows.c, rows.b)
    rows.b.vectorize()
}
"""
BEST_OF_SMALL = """schedule small_best for small {
    reorder(mm.i, mm.k, mm.j)
    mm.j.vectorize()
}
"""
OWN_INTRINSIC = """intrin row(a: f32[4], inout c: f32[4]) {
    desc { block r[i: 4] { c[i] += a[i] } }
    impl { block r[i: 4] { c[i] = c[i] + a[i] } }
}
program p(A: f32[8, 4], inout C: f32[8, 4]) { block b[i: 8, j: 4] { C[i, j] += A[i, j] } }
schedule p_best for p { b.j.tensorize(row) }
"""
Captured = pytest.CaptureFixture[str]


def arguments(*files: str, **changed: object) -> argparse.Namespace:
    given = {"files": files, "rules": "cpu", "sizes": [], "likely": [], "backend": None, "seed": 0, "strict": False}
    return argparse.Namespace(**{**given, "allow_native": False, "builder": "", "runner": "", **changed})


def plan(*files: str, **changed: object) -> list[Named]:
    return planned(arguments(*files, **changed), named_target("host"))


def chosen(*files: str) -> Chosen:
    """The one task of files that hold the same workload."""
    [group] = grouped(plan(*files))
    return Chosen("small", group, standing_in(group, []))


def record(one: Chosen, candidate: Candidate) -> Record:
    task = one.group.first.task
    result = Result(Outcome.MEASURED, timing=Timing((1e-6,), 1))
    hash = structural_hash(candidate.program)
    return record_of(task, Settings(), "run", texts_of(candidate, one.group.first.best), hash, result, 0)


def written(one: Chosen, best: Record, confirmed: bool = True) -> Written:
    done = Finished("1 trial done", Tally(), best, 1.0, confirmed=confirmed)
    return write_all(arguments(), [(one, done)], {one.name: Scale(None, None)})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("small.ms").write_text(SMALL)
    Path("gate.ms").write_text(GATE + BEST)
    return tmp_path


# ---------------------------------------------------------------- what is replaced
def test_the_schedule_of_an_equal_program_is_timed_with_the_best(place: Path) -> None:
    one = chosen("small.ms", "gate.ms")
    assert one.incumbent is not None and one.item({}).incumbent == one.incumbent
    own = space_of_text(BEST_OF_SMALL, one.group.first.task.program).sample(0)
    assert structural_hash(one.incumbent.program) == structural_hash(own.program)
    # It is the fastest: its file keeps it, the other one gets it.
    assert written(one, record(one, one.incumbent)).places == {
        "small": ["small.ms:small_best", "gate.ms:gate_best is kept: no faster one was found"]
    }
    assert Path("gate.ms").read_text() == GATE + BEST
    module = load("small.ms", Path("small.ms").read_text())
    assert list(module.schedules) == ["small_best"] and not module.problems
    again = chosen("small.ms", "gate.ms")
    assert again.incumbent is not None
    assert [p.split()[:3] for p in written(again, record(again, again.incumbent)).places["small"]] == [
        ["small.ms:small_best", "is", "kept:"],
        ["gate.ms:gate_best", "is", "kept:"],
    ]


def test_a_faster_one_replaces_what_was_timed_and_leaves_what_was_not(place: Path) -> None:
    other = (GATE + BEST.replace("    reorder(rows.a, rows.c, rows.b)\n", "")).replace("gate", "door")
    Path("door.ms").write_text(other)
    one = chosen("small.ms", "gate.ms", "door.ms")
    assert written(one, record(one, one.group.first.task.space.sample(1))).places == {
        "small": [
            "small.ms:small_best",
            "gate.ms:gate_best",
            "door.ms:door_best is kept: it was not timed; `mslang tune door.ms:door --write` does so",
        ]
    }
    assert "Found by `mslang tune`" in Path("gate.ms").read_text() and Path("door.ms").read_text() == other


def test_a_schedule_that_means_nothing_in_the_file_of_the_first_is_left_alone(place: Path) -> None:
    Path("own.ms").write_text(OWN_INTRINSIC)
    Path("sum.ms").write_text(
        "program sum(X: f32[8, 4], inout Y: f32[8, 4]) { block c[i: 8, j: 4] { Y[i, j] += X[i, j] } }\n"
    )
    one = chosen("sum.ms", "own.ms")
    assert one.standing == (None, Standing(None)) and one.incumbent is None
    assert written(one, record(one, one.group.first.task.space.sample(1))).places == {
        "small": [
            "sum.ms:sum_best",
            "own.ms:p_best is kept: it was not timed; `mslang tune own.ms:p --write` does so",
        ]
    }
    assert Path("own.ms").read_text() == OWN_INTRINSIC


def test_an_invalid_schedule_is_replaced(place: Path) -> None:
    Path("gate.ms").write_text(GATE + BEST.replace("rows.b.vectorize()", "rows.c.parallel()"))
    one = chosen("small.ms", "gate.ms")
    assert one.standing == (None, None)
    assert written(one, record(one, one.group.first.task.space.sample(1))).places == {
        "small": ["small.ms:small_best", "gate.ms:gate_best"]
    }


def test_what_is_not_written_is_said(place: Path) -> None:
    one = chosen("small.ms", "gate.ms")
    found = written(one, record(one, one.group.first.task.space.sample(1)), confirmed=False)
    why = "the best of small was not measured again"
    assert found == Written(
        {}, (f"small.ms:small_best is not written: {why}", f"gate.ms:gate_best is not written: {why}")
    )
    assert Path("gate.ms").read_text() == GATE + BEST and Path("small.ms").read_text() == SMALL


# ---------------------------------------------------------------- sizes of several programs
TWO = """program p[N = 64](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] * 2.0 } }
program q[M = 64](A: f32[M], out B: f32[M]) { block b[i: M] { B[i] = A[i] * 3.0 } }
"""


def shapes(tasks: list[Named]) -> list[str]:
    sizes = [t.task.program.params[0].buffer.shape[0] for t in tasks]
    return [f"{t.program} {size.value}" for t, size in zip(tasks, sizes, strict=True) if isinstance(size, Const)]


def test_a_size_is_that_of_the_programs_that_have_it(place: Path) -> None:
    Path("two.ms").write_text(TWO)
    assert shapes(plan("two.ms", sizes=[("N", 32)])) == ["p 32", "q 64"]
    assert shapes(plan("two.ms", sizes=[("M", 16), ("N", 32)])) == ["p 32", "q 16"]
    assert shapes(plan("two.ms:p", "two.ms:q", sizes=[("M", 16)])) == ["p 64", "q 16"]
    Path("spaces.ms").write_text(TWO + "schedule s for q { b.i.vectorize() }\nschedule t for p { b.i.vectorize() }\n")
    assert shapes(plan("spaces.ms", sizes=[("N", 32)], rules=None)) == ["p 32", "q 64"]
    for files, size, said in (
        (["two.ms"], "K", "two.ms has no size `K`"),
        (["two.ms:q"], "N", "two.ms:q has no size `N`"),
        (["small.ms", "two.ms"], "K", "none of small.ms, two.ms has a size `K`"),
    ):
        with pytest.raises(MsError, match="MS703") as error:
            plan(*files, sizes=[(size, 32)])
        assert error.value.diagnostic.message == said


def test_a_likely_size_is_that_of_the_programs_that_have_it(place: Path) -> None:
    Path("two.ms").write_text(TWO.replace("N = 64", "N: dyn(1..16, buckets = [4])").replace("M = 64", "M: dyn(1..8)"))
    found = plan("two.ms", "small.ms", likely=[Instance({"N": 3})])
    assert [(t.program, t.bucket and t.bucket.text) for t in found if t.program != "q"] == [
        ("p", "N = 1..4"),
        ("small", None),
    ]
    assert sum(t.program == "q" for t in found) == 4
    with pytest.raises(MsError, match="p has no size `K` that is known only at the call"):
        plan("two.ms", likely=[Instance({"K": 3})])
    with pytest.raises(MsError, match="no size `K` that is known only at the call"):
        plan("small.ms", likely=[Instance({"K": 3})])


def test_sizes_of_compared_items_are_those_of_their_programs(place: Path, capsys: Captured) -> None:
    Path("two.ms").write_text(TWO.replace("3.0", "2.0"))
    words = ["compare", "two.ms:p", "two.ms:q", "--seconds", "1", "--json"]
    assert main([*words, "--set", "N=32", "--set", "M=32"]) == 0, capsys.readouterr().err
    assert main([*words, "--set", "N=32"]) == 1 and "MS708" in capsys.readouterr().out
    assert main([*words, "--set", "K=32"]) == 1
    assert "none of two.ms:p, two.ms:q has a size `K`" in capsys.readouterr().out
