"""A program with a dynamic size: tuned over buckets, and dispatched at the call to the best record of its range."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from mslang.backend.dispatch import DispatchKernel
from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash
from mslang.tune.record import Outcome
from tests.e2e.conftest import Run, json_lines

TEXT = """program rows[M: dyn(1..40, buckets = [8])](A: f32[M, 8], B: f32[8, 16], out C: f32[M, 16]) {
    block c[i: M, j: 16 | k: 8] { C[i, j] += A[i, k] * B[k, j] }
}
schedule tiled for rows {
    let n ~ choose([2, 4])
    let i0, i1 = c.i.split([_, n])
    c.j.vectorize()
}
"""


def product(m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(m)
    a, b = (generator.integers(-3, 4, shape).astype(np.float32) for shape in ((m, 8), (8, 16)))
    return a, b, a @ b


def check(kernel: object) -> None:
    for m in (1, 5, 8, 9, 31, 40):
        a, b, wanted = product(m)
        assert (kernel(a, b) == wanted).all()  # type: ignore[operator]
    a, b, _ = product(41)
    with pytest.raises(MsError, match=r"(?s)MS412.*M = 41 is outside of its range.*dyn\(1\.\.40\)"):
        kernel(a, b)  # type: ignore[operator]


def test_buckets_are_tuned_and_dispatched_to(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.ms").write_text(TEXT)
    done = run("tune", "rows.ms:tiled", "--trials", "4", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "rows[M = 1..8]" in done.stdout and "rows[M = 9..40]" in done.stdout
    source = ms.load(tmp_path / "rows.ms")
    (applied,) = ms.apply(source, ["db", "default"], database=tmp_path / ".mslang" / "records.db")
    assert [c.bucket.text for c in applied.cases] == ["M = 1..8", "M = 9..40"]
    assert [c.applied.by for c in applied.cases] == ["db", "db"] and applied.by == "default"
    assert "  M = 1..8: db: record " in applied.explanation()
    kernel = ms.build(applied)
    assert isinstance(kernel, DispatchKernel)
    check(kernel)
    assert kernel.at(M=8) is kernel.cases[0].kernel and kernel.at(M=9) is kernel.cases[1].kernel
    for wrong in ({"M": 41}, {}):
        with pytest.raises(MsError, match="MS412"):
            kernel.at(**wrong)
    done = run("run", "rows.ms:rows", "--apply", "db,default", "--at", "M=8", "--at", "M=40", "--json")
    assert done.returncode == 0, done.stderr
    found = json_lines(done.stdout)
    assert [x["sizes"] for x in found] == [{"M": 8}, {"M": 40}]
    assert [x["program"] for x in found] == [structural_hash(c.applied.program) for c in applied.cases]
    done = run("show", "rows.ms:rows", "--apply", "db", "--stage", "trace")
    assert "# rows[M = 1..8]: db: record " in done.stdout and "# rows[M = 9..40]: db: record " in done.stdout
    done = run("build", "rows.ms:rows", "--apply", "db,default", "-o", "rows.ll", "-o", "rows.h")
    assert done.returncode == 0 and "M: from 1 to 40" in (tmp_path / "rows.h").read_text()
    # Buckets are ranges: a program of another range has the records of those that are the same.
    wider = ms.parse(TEXT.replace("dyn(1..40, buckets = [8])", "dyn(1..90, buckets = [8, 40])"))
    (other,) = ms.apply(wider.program("rows"), ["db"], database=tmp_path / ".mslang" / "records.db")
    assert [c.bucket.text for c in other.cases] == ["M = 1..8", "M = 9..40"] and other.by is None


def test_a_size_to_call_with_is_in_the_range(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.ms").write_text(TEXT)
    for words, status, text in (
        ((), 1, "`--at M=…` calls it with a size"),
        (("--at", "M=41"), 1, "M = 41 is outside of its range"),
        (("--at", "N=4"), 2, "no size `N` that is known only at the call"),
        (("--at", "4"), 2, "NAME=SIZE"),
    ):
        done = run("run", "rows.ms:rows", *words)
        assert done.returncode == status and text in done.stderr, done.stderr
    done = run("run", "rows.ms:tiled", "--at", "M=13")
    assert done.returncode == 0 and "size      M = 13\n" in done.stdout, done.stderr


@pytest.mark.parametrize("verb", ["run", "show", "compare"])
def test_verbs_that_take_a_size_of_the_call_refuse_alike(run: Run, tmp_path: Path, verb: str) -> None:
    (tmp_path / "rows.ms").write_text(TEXT)
    items = ["rows.ms:rows", "rows.ms:tiled"] if verb == "compare" else ["rows.ms:tiled"]
    for words, status, text in (
        (("--at", "M=41"), 1, "M = 41 is outside of its range"),
        (("--at", "N=4"), 2, "no size `N` that is known only at the call"),
        (("--set", "M=16", "--at", "M=16"), 2, "`--set M=16` compiles for one value of `M`"),
    ):
        done = run(verb, *items, *words)
        assert done.returncode == status and text in done.stderr, done.stderr


def test_what_serves_a_size_is_shown_and_schedules_are_compared_at_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.ms").write_text(TEXT)
    done = run("tune", "rows.ms:tiled", "--trials", "2", "--likely", "M=11", "--workers", "1")
    assert done.returncode == 0, done.stderr
    words = ("show", "rows.ms:rows", "--apply", "db", "--stage", "trace")
    served, other = (run(*words, "--at", f"M={m}").stdout for m in (11, 3))
    assert "split" in served and "split" not in other
    done = run("compare", "rows.ms:rows", "rows.ms:tiled", "--at", "M=13", "--seconds", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert [x["outcome"] for x in json_lines(done.stdout)] == ["measured", "measured"]
    done = run("compare", "rows.ms:rows", "rows.ms:tiled")
    assert done.returncode == 1 and "`--at M=…` calls it with a size" in done.stderr


def test_only_buckets_of_likely_sizes_are_tuned(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.ms").write_text(TEXT)
    done = run("tune", "rows.ms:tiled", "--trials", "2", "--likely", "M=11:3", "--likely", "M=40", "--workers", "1")
    assert done.returncode == 0, done.stderr
    (applied,) = ms.apply(ms.load(tmp_path / "rows.ms"), ["db"], database=tmp_path / ".mslang" / "records.db")
    assert [c.bucket.text for c in applied.cases] == ["M = 9..40"] and applied.by is None
    check(ms.build(applied))
    done = run("tune", "rows.ms:tiled", "--likely", "M=41")
    assert done.returncode == 1 and "M = 41 is outside of its range" in done.stderr
    done = run("tune", "rows.ms:tiled", "--likely", "K=8")
    assert done.returncode == 1 and "rows has no size `K` that is known only at the call" in done.stderr, done.stderr
    assert "it has `M`" in done.stderr
    (tmp_path / "fixed.ms").write_text(TEXT.replace("M: dyn(1..40, buckets = [8])", "M = 8"))
    done = run("tune", "fixed.ms:tiled", "--likely", "M=8")
    assert done.returncode == 2 and "no size `M` that is known only at the call" in done.stderr, done.stderr
    done = run("tune", "rows.ms:tiled", "--likely", "M")
    assert done.returncode == 2 and "NAME=SIZE" in done.stderr


def test_buckets_and_a_whole_range_are_tuned_from_python(tmp_path: Path) -> None:
    program = ms.parse(TEXT).program("rows")
    database = tmp_path / "records.db"
    found = ms.tune_all(
        {"rows": program, "tiled": ms.parse(TEXT).space("tiled")},
        trials=3,
        likely=[({"M": 5}, 2), ({"M": 7}, 1)],
        workers=1,
        database=database,
    )
    assert list(found) == ["rows[M = 1..8]", "tiled"]
    (applied,) = ms.apply(program, ["db"], database=database)
    assert applied.by == "db" and [c.bucket.text for c in applied.cases] == ["M = 1..8"]
    check(ms.build(applied))


IN_PLACE = """program doubled[M: dyn(1..40, buckets = [8])](inout X: f32[M, 8]) {
    block c[i: M, j: 8] { X[i, j] = 2.0 * X[i, j] }
}
"""


def test_what_works_in_place_is_verified_after_one_call_at_each_likely_size(tmp_path: Path) -> None:
    # A size of weight 3 is called three times in a run that is timed: its outputs are then those of three calls.
    found = ms.tune_all(
        {"doubled": ms.parse(IN_PLACE).program("doubled")},
        trials=2,
        likely=[({"M": 5}, 3), ({"M": 7}, 1)],
        workers=1,
        database=tmp_path / "records.db",
    )
    assert set(found["doubled[M = 1..8]"].done.tally.outcomes) == {Outcome.MEASURED}


def test_without_records_one_kernel_serves_all_sizes(tmp_path: Path) -> None:
    (applied,) = ms.apply(ms.parse(TEXT).program("rows"), database=tmp_path / "none.db")
    check(ms.build(applied))


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_any_size_goes_to_the_first_case_that_holds_it(backend: str) -> None:
    from msgspec.structs import replace

    from mslang.apply.passes import Applied, Case, Served
    from mslang.ir.buckets import buckets_of, restricted

    source = ms.parse(TEXT)
    program = source.program("rows")
    low, high = buckets_of(program)
    scheduled = source.space("tiled").sample(0).program
    parts = [Applied(program, "own", Served(restricted(scheduled, b), "")) for b in (low, high)]
    whole = Applied(program, "own", Served(scheduled, ""), cases=(Case(low, parts[0]),))
    check(ms.build(whole, backend=backend))
    check(ms.build(replace(whole, cases=(Case(high, parts[1]), Case(low, parts[0]))), backend=backend))
    assert whole.at({"M": 8}) == parts[0] and whole.at({"M": 9}) is whole
