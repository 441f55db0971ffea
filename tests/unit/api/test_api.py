"""`import mslang as ms`: what the page about Python promises."""

import doctest
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

import mslang as ms
from mslang.api import applying, kernels, source, tuning
from mslang.ir.equal import structural_hash
from mslang.runtime.timing import Timing
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.space import Space
from mslang.tune.progress import Finished, Tally
from mslang.tune.record import Outcome, Record, Result
from mslang.tune.result import Tuned
from mslang.tune.task import Task

TEXT = """
program gemm[M = 32, N = 32, K = 32](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
schedule tiled for gemm {
    let ti ~ perfect_tile(mm.i, n = 2, max_inner = 16)
    let i0, i1 = mm.i.split(ti)
}
space both for gemm = tiled
"""


def test_the_examples_in_docstrings_hold() -> None:
    for module in (applying, kernels, source, tuning):
        found = doctest.testmod(module)
        assert found.attempted >= 1 and found.failed == 0, module.__name__


def test_a_source_knows_its_items(tmp_path: Path) -> None:
    (tmp_path / "gemm.ms").write_text(TEXT)
    source = ms.load(tmp_path / "gemm.ms")
    assert source.programs == ("gemm",) and source.spaces == ("tiled", "both") and source.diagnostics == ()
    assert "gemm, tiled, both" in repr(source)
    assert source.program(M=8).params[0].buffer.shape[0].value == 8
    space = source.space("tiled", sizes={"M": 8})
    assert isinstance(space, Space) and space.sample(0).decisions.keys() == {"ti"}


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda: ms.parse("program p( {"), "MS0"),
        (lambda: ms.parse(TEXT.replace("mm.i", "mn.i")), "MS2"),
        (lambda: ms.load("not/there.ms"), "MS120"),
        (lambda: ms.parse("").program(), "MS704"),
        (lambda: ms.parse(TEXT).program("gem"), "MS101"),
        (lambda: ms.parse(TEXT).program("gemm", Q=3), "MS112"),
        (lambda: ms.parse(TEXT).space("tield"), "MS201"),
        (lambda: ms.parse(TEXT + TEXT.replace("gemm[", "other[").split("schedule")[0]).program(), "MS704"),
    ],
    ids=["syntax", "name", "file", "no program", "wrong program", "wrong size", "wrong space", "several"],
)
def test_what_is_wrong_is_an_error_with_a_code(use, code: str) -> None:
    with pytest.raises(ms.MsError) as error:
        use()
    assert error.value.diagnostic.code.startswith(code)
    assert error.value.diagnostic.message


def test_programs_and_schedules_embedded_in_python() -> None:
    @ms.program
    def double() -> None:
        """program double(A: f32[8], out B: f32[8]) { block b[i: 8] { B[i] = A[i] * 2.0 } }"""

    @ms.program
    def rows():
        a = ms.te.placeholder((8, 16), name="A")
        k = ms.te.reduce_axis(16, "k")
        return ms.te.program("rows", ms.te.compute((8,), lambda i: ms.te.sum(a[i, k], k), "S"))

    @ms.schedule
    def tiles() -> None:
        """
        program p(A: f32[8], out B: f32[8]) { block b[i: 8] { B[i] = A[i] } }
        schedule tiles for p { let i0, i1 = b.i.split([_, 4]) }
        """

    assert (ms.build(double)(np.ones(8, np.float32)) == 2).all()
    assert (ms.build(rows)(np.ones((8, 16), np.float32)) == 16).all()
    assert tiles.spaces == ("tiles",)


def test_a_schedule_is_recorded_and_builds() -> None:
    schedule = ms.Schedule(ms.parse(TEXT).program(), seed=1)
    tile = schedule.perfect_tile(schedule.axis("mm", "i"), n=2, max_inner=8, name="ti")
    outer, _ = schedule.split(schedule.axis("mm", "i"), tile)
    schedule.parallel(outer)
    random = np.random.default_rng(0)
    a, b = (random.random((32, 32), np.float32) for _ in range(2))
    np.testing.assert_allclose(ms.build(schedule.program, checked=True)(a, b), a @ b, rtol=1e-5)
    assert "let ti ~ perfect_tile" in schedule.trace.as_ms()


def tuned(best: Record | None) -> Tuned:
    space = ms.parse(TEXT).space("tiled")
    tally = Tally()
    tally.add(Outcome.MEASURED)
    return Tuned(Task(space.program, space, ms.host(), "python"), Finished("done", tally, best, 1.0))


def test_tuned_shows_well() -> None:
    best = Record(
        "w",
        "gemm",
        "host",
        "cpu",
        "llvm",
        "c",
        "pinned",
        "schedule <best>",
        '{"ti": [4, 8]}',
        Result(Outcome.MEASURED, timing=Timing((1e-6,), 1)),
        "r",
        0,
        0,
        "0.1.0",
        id=1,
    )
    made = tuned(best).task.space.replay({"ti": [4, 8]}, strict=True).program
    result = tuned(msgspec.structs.replace(best, candidate=structural_hash(made)))
    assert result.seconds == 1e-6 and result.flops == pytest.approx(2 * 32**3 / 1e-6)
    page = result._repr_html_()
    assert "schedule &lt;best&gt;" in page and "GFLOP/s" in page and "measured" in page
    assert "in 4" in ms.print_program(result.program)


def test_the_best_may_be_the_default_which_is_no_point_of_the_space() -> None:
    program = tuned(None).task.program
    default = default_schedule(program, ms.host())
    text = default.trace.as_ms("best")
    best = Record(
        "w", "gemm", "host", "cpu", "llvm", structural_hash(default.program), text, text, "{}",
        Result(Outcome.MEASURED, timing=Timing((1e-6,), 1)), "r", -1, 0, "0.1.0",
    )  # fmt: skip
    assert tuned(best).program == default.program


def test_nothing_found_is_an_error_but_shows() -> None:
    result = tuned(None)
    with pytest.raises(ms.MsError) as error:
        _ = result.best
    assert error.value.diagnostic.code == "MS505"
    assert "nothing valid" in result._repr_html_()


def test_every_name_is_there_and_import_is_light() -> None:
    for name in dir(ms):
        assert getattr(ms, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = ms.nothing_like_it
    heavy = ("numpy", "lark", "llvmlite", "rich", "pygls", "xgboost")
    code = f"import sys, mslang; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
