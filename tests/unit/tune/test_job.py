"""One candidate in this process: what it may do to its inputs, and that it is verified before and after timing."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.llvm.backend import LLVM
from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.runtime.timing import Limits, Timing
from mslang.sema.modules import load
from mslang.sema.program import instantiate
from mslang.target.detect import host
from mslang.tune.call import bind, in_turns
from mslang.tune.expected import changed_input, private_copies, read_expected, write_expected
from mslang.tune.job import (
    BuildJob,
    Built,
    CompareJob,
    MeasureJob,
    Prepared,
    PrepareJob,
    build,
    compare,
    encode,
    measure,
    prepare,
)
from mslang.tune.record import Outcome, Result
from mslang.tune.verification import DENSE, SPARSE

LIMITS = Limits(repeats=3, max_repeats=5, min_repeat=1e-4, max_total=0.05)

TEXT = """
program add[N = 64](a: f32[N], b: f32[N], out c: f32[N]) { block s[i: N] { c[i] = a[i] + b[i] } }
program add_and_clear[N = 64](inout a: f32[N], b: f32[N], out c: f32[N]) {
    block s[i: N] { c[i] = a[i] + b[i] }
    block z[i: N] { a[i] = 0.0 }
}
program add_once[N = 64](a: f32[N], b: f32[N], inout c: f32[N]) {
    block s[i: N] { c[i] = select(c[i] >= a[i] + b[i] and c[i] < 1e6, c[i] + 1.0, a[i] + b[i]) }
}
program decay[N = 64](inout x: f32[N]) { block d[i: N] { x[i] = x[i] * 0.9 } }
program grow[N = 64](inout x: f32[N]) { block d[i: N] { x[i] = select(x[i] > 1000.0, -1.0, x[i] * 2.0) } }
program gather[N = 8](t: f32[N], out y: f32[N]) { block b[i: N] { y[i] = t[i] } }
"""


def program(name: str) -> Program:
    return instantiate(load("t.ms", TEXT), name)


def prepared(name: str, folder: Path) -> Program:
    made = program(name)
    answer = pickle.loads(prepare(encode(PrepareJob(made, host(), str(folder), 0))))
    assert isinstance(answer, Prepared) and answer.seconds > 0
    return made


def measured(code: Program, like: Program, folder: Path, dense: bool = False) -> Result:
    """Measure the code of one program as if it were a candidate of another with parameters of the same names."""
    built = pickle.loads(build(encode(BuildJob(code, host()))))
    assert isinstance(built, Built) and built.result is None
    found = pickle.loads(measure(encode(MeasureJob(like, built, str(folder), LIMITS, dense))))
    assert isinstance(found, Result)
    return found


def test_a_candidate_that_writes_to_its_inputs_is_wrong_and_harms_no_other(tmp_path: Path) -> None:
    add = prepared("add", tmp_path)
    for _ in range(2):
        result = measured(program("add_and_clear"), add, tmp_path)
        assert result.outcome is Outcome.WRONG_RESULT and result.reason == "it writes to its input a"
        assert measured(add, add, tmp_path, dense=True).outcome is Outcome.MEASURED


def test_results_are_verified_again_after_timing(tmp_path: Path) -> None:
    add = prepared("add", tmp_path)
    # Right from a poisoned output, wrong from what the run before left.
    result = measured(program("add_once"), add, tmp_path)
    assert result.outcome is Outcome.WRONG_RESULT and result.reason.startswith(
        "after more runs, on sparse integers inputs c["
    )


def test_a_kernel_that_works_in_place_is_verified_and_timed_on_its_inputs(tmp_path: Path) -> None:
    for name in ("decay", "grow"):
        made = prepared(name, tmp_path)
        result = measured(made, made, tmp_path, dense=True)
        # A kernel that worked on its own results would end with others than those of one run.
        assert result.outcome is Outcome.MEASURED, result
        assert result.timing is not None and result.timing.runs <= 64 and result.timing.yardstick


def test_candidates_are_timed_in_turns_and_verified_again(tmp_path: Path) -> None:
    add = prepared("add", tmp_path)
    names = ("add", "add_and_clear", "add")
    built = [pickle.loads(build(encode(BuildJob(program(name), host())))) for name in names]
    job = CompareJob(tuple((add, b) for b in built), str(tmp_path), LIMITS)
    first, wrong, second = pickle.loads(compare(encode(job)))
    # On a machine that does other things, the time of `max_total` may end before there are `max_repeats`.
    assert LIMITS.repeats <= len(first.samples) == len(second.samples) <= LIMITS.max_repeats
    for good in (first, second):
        assert good.result.outcome is Outcome.MEASURED and good.result.timing.yardstick > 0
        assert good.result.verified[0].inputs == SPARSE
    assert wrong.result.outcome is Outcome.WRONG_RESULT and wrong.samples == ()
    assert wrong.result.reason.startswith("among others, on sparse integers inputs c[")


def test_in_turns_the_back_end_says_how_the_caches_were(tmp_path: Path) -> None:
    add = prepared("add", tmp_path)
    gpu = replace(LLVM, time=lambda bound, limits, restore: Timing((1e-3,), 1, cold=limits.cache != "warm"))
    calls = [(bind(add, LLVM.loaded(add, host()), str(tmp_path), SPARSE), gpu)] * 2
    assert [r.timing.cold for r in in_turns(calls, LIMITS, 0.0)] == [True, True]
    assert not in_turns(calls, replace(LIMITS, cache="warm"), 0.0)[0].timing.cold


def test_turns_restore_the_inputs_of_a_kernel_that_works_in_place(tmp_path: Path) -> None:
    decay = prepared("decay", tmp_path)
    built = pickle.loads(build(encode(BuildJob(decay, host()))))
    job = CompareJob(((decay, built), (decay, built)), str(tmp_path), LIMITS)
    assert all(c.result.outcome is Outcome.MEASURED for c in pickle.loads(compare(encode(job))))


def test_expected_results_cannot_be_written_to(tmp_path: Path) -> None:
    prepared("add", tmp_path)
    for arrays in read_expected(tmp_path, DENSE):
        for array in arrays.values():
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0
    inputs, _ = read_expected(tmp_path, DENSE)
    copies = private_copies(inputs)
    assert changed_input(program("add"), inputs, copies) is None
    copies["b"][3] = np.nan
    assert changed_input(program("add"), inputs, copies) == "b"
    assert all(c.ctypes.data % 64 == 0 for c in copies.values())


def test_arrays_without_elements_are_kept(tmp_path: Path) -> None:
    write_expected(tmp_path, SPARSE, {"x": np.zeros((0, 3), np.float32)}, {"y": np.float32(2.0).reshape(())})
    inputs, outputs = read_expected(tmp_path, SPARSE)
    assert inputs["x"].shape == (0, 3) and outputs["y"] == 2.0
    assert private_copies(inputs)["x"].shape == (0, 3)


def test_preparing_compares_the_compiler_with_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mslang.diagnostics import problem
    from mslang.tune import reference

    monkeypatch.setattr(reference, "check_plain_compiler", lambda *_: problem("MS501", "they differ"))
    made = program("gather")
    with pytest.raises(MsError) as error:
        prepare(encode(PrepareJob(made, host(), str(tmp_path), 0, made)))
    assert error.value.diagnostic.code == "MS501"
