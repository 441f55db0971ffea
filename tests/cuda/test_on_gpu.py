"""Verdicts of the emulation beside a GPU's: all but the driver's calls runs here, on a GPU that the emulation plays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fuzz_cuda
from mslang.backend.cuda import compilers, executable
from mslang.backend.cuda import device as devices
from mslang.backend.cuda.compiled import Compiled
from mslang.backend.cuda.device import Three
from mslang.backend.registry import unavailable_here
from mslang.diagnostics import MsError
from tests.cuda import on_gpu
from tests.cuda.campaign import check_batch
from tests.cuda.emulator import Emulated, Launch, why_not
from tests.cuda.library import NAMED, check_schedules, differs, made_of
from tests.cuda.modules import Made
from tests.cuda.on_gpu import Emulation, OnGpu, results, verdict
from tests.property.chunks import Chunk
from tests.property.judge import Arrays, Case

EMULATED = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
NO_GPU = pytest.mark.skipif(unavailable_here("cuda") is None, reason="this machine has a GPU")
SUMS = "block_sums-2x40"


class EmulatedGpu:
    """A device of the CUDA back end: its images are sources, which the emulation runs on the device's memory."""

    name, sm, l2 = "the emulation", 90, 1 << 20

    def __init__(self) -> None:
        self.memory: dict[int, np.ndarray] = {}
        self.images: dict[bytes, Emulated] = {}
        self.reserved = 0

    def allocate(self, size: int) -> int:
        self.reserved += 1
        self.memory[self.reserved] = np.full(size, 0xFF, np.uint8)
        return self.reserved

    def free(self, address: int) -> None:
        del self.memory[address]

    def put(self, address: int, array: np.ndarray) -> None:
        self.memory[address][...] = array.view(np.uint8)

    def get(self, array: np.ndarray, address: int) -> None:
        array.view(np.uint8)[...] = self.memory[address]

    def function(self, image: bytes, name: str, dynamic_shared: int) -> tuple[Emulated, str]:
        if image not in self.images:
            self.images[image] = Emulated(image.decode(), checked=False, optimize=0)
        return self.images[image], name

    def launch(
        self, function: tuple[Emulated, str], grid: Three, block: Three, dynamic: int, arguments: list[np.generic]
    ) -> None:
        file, name = function
        numbers = tuple(str(a) if isinstance(a, np.uint64) else int(a) for a in arguments)
        arrays = {a: self.memory[int(a)] for a in numbers if isinstance(a, str)}
        outcome = file.run([Launch(name, numbers, grid, block, dynamic)], arrays, orders=("forward",))
        assert outcome.faults == ()
        for a, array in outcome.arrays.items():
            self.memory[int(a)][...] = array

    def finish(self) -> None:
        pass


def source_as_image(source: str, arch: str, form: str) -> Compiled:
    """Compiles nothing, for the architecture of the device."""
    assert (arch, form) == ("sm_90", "cubin")
    return Compiled(source.encode(), "")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> EmulatedGpu:
    """The device of this process."""
    made = EmulatedGpu()
    monkeypatch.setattr(devices, "device", lambda: made)
    for name in ("compiler", "installed_compiler"):
        monkeypatch.setattr(executable, name, lambda: source_as_image)
    return made


@EMULATED
def test_pairs_run_on_the_device_of_the_back_end_and_verdicts_are_the_same(gpu: EmulatedGpu) -> None:
    """Some with sizes known at the call, strides, workspaces, and several launches."""
    found = check_batch(1, range(5, 12), results)
    assert [f.what for f in found.faults] == []
    assert (
        found.checks["run on the GPU"] == found.checks["with the same verdict on the GPU"] == found.checks["run"] == 7
    )
    assert len(gpu.images) == 7


@EMULATED
def test_schedules_of_the_library_run_there_too(gpu: EmulatedGpu) -> None:
    cases = [NAMED[n] for n in ("split_k-24x16x64", "bf16_by_warps-32x32x64", "fused_rows-3x70", SUMS)]
    found = check_schedules(cases, results)
    assert [f.what for f in found.faults] == []
    assert (found.pairs, found.checks["with the same verdict on the GPU"]) == (4, 4)


def one_off(made: Made, cases: Sequence[Case]) -> list[Arrays]:
    """A device that gets one element wrong."""
    found = [{"S": np.zeros(2, np.float32)} for _ in cases]
    found[0]["S"][1] = 1.0
    return found


def all_zeros(made: Made, cases: Sequence[Case]) -> list[Arrays]:
    return [{"S": np.zeros(2, np.float32)} for _ in cases]


def killed(made: Made, cases: Sequence[Case]) -> list[Arrays]:
    os._exit(7)


def process(made: Made, cases: Sequence[Case]) -> list[Arrays]:
    """Which process runs the kernels; one without cases fails."""
    assert cases
    return [{"S": np.array(os.getpid())}]


def judged(on: on_gpu.OnCases, emulated: float = 0.0, wrong: str = "") -> tuple[str, Counter[str]]:
    """The verdict on two zeros, of which the emulation has given the first as `emulated`."""
    checks = Counter[str]()
    cases, wanted = [Case({}, {"N": 40})], [{"S": np.zeros(2, np.float32)}]
    emulation = Emulation([{"S": np.array([emulated, 0.0], np.float32)}], wrong)
    return verdict(made_of(SUMS), cases, wanted, emulation, on, differs, checks), checks


def test_a_result_that_only_the_gpu_gets_wrong_is_a_fault() -> None:
    said, checks = judged(one_off)
    assert said == (
        "no fault in the emulation; on the GPU: S[1]: 0.0 expected, 1.0 found {'N': 40}; "
        "on the GPU, expected by the emulation: S[1]: 0.0 expected, 1.0 found {'N': 40}"
    )
    assert checks == {"run on the GPU": 1, "with the same verdict on the GPU": 0}


def test_a_fault_that_the_gpu_does_not_show_is_another_verdict() -> None:
    said, checks = judged(all_zeros, wrong="race of S")
    assert said == "race of S; no fault on the GPU"
    assert checks["with the same verdict on the GPU"] == 0


def test_what_both_get_wrong_is_one_verdict() -> None:
    said, checks = judged(one_off, wrong="S[1]: 0.0 expected, 1.0 found")
    assert said.startswith("S[1]: 0.0 expected, 1.0 found; on the GPU: S[1]")
    assert checks["with the same verdict on the GPU"] == 1


def test_results_that_are_not_the_emulations_are_a_fault() -> None:
    said, _ = judged(all_zeros, emulated=2.0)
    assert (
        said
        == "no fault in the emulation; on the GPU, expected by the emulation: S[0]: 2.0 expected, 0.0 found "
        + ("{'N': 40}")
    )


def test_right_on_both_is_no_fault() -> None:
    assert judged(all_zeros) == ("", {"run on the GPU": 1, "with the same verdict on the GPU": 1})


def test_a_process_that_a_kernel_ends_is_a_fault_and_is_replaced() -> None:
    with OnGpu(killed) as gpu:
        said, checks = judged(gpu)
    assert "MS507" in said and "running `row_sum` on the GPU crashed" in said and checks["run on the GPU"] == 0


def test_after_a_failure_programs_run_in_another_process() -> None:
    made = made_of(SUMS)
    with OnGpu(process) as gpu:
        first, again = (gpu(made, [Case({})])[0]["S"] for _ in range(2))
        with pytest.raises(MsError, match="MS510"):
            gpu(made, [])
        after = gpu(made, [Case({})])[0]["S"]
    assert first == again != after and os.getpid() not in (first, after)


# ------------------------------------------------------------------ the command
@EMULATED
@NO_GPU
def test_without_a_gpu_the_command_says_so(tmp_path: Path) -> None:
    words = [sys.executable, fuzz_cuda.__file__, "--device", "--state", str(tmp_path / "state.jsonl")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.strip() == unavailable_here("cuda")
    assert not (tmp_path / "state.jsonl").exists()


def test_without_a_compiler_that_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpu, "unavailable_here", lambda name: None)
    monkeypatch.setattr(compilers, "installed_compiler", lambda: None)
    assert on_gpu.reason_here() == "no compiler of CUDA C is installed"


class Here(OnGpu):
    """The device of this process in place of a worker's."""

    def __call__(self, made: Made, cases: Sequence[Case]) -> Sequence[Arrays]:
        return results(made, cases)


@EMULATED
def test_the_command_runs_pairs_and_the_library_on_a_gpu_and_resumes(
    gpu: EmulatedGpu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state.jsonl"
    monkeypatch.setattr(on_gpu, "why_not", lambda: None)
    monkeypatch.setattr(fuzz_cuda, "OnGpu", Here)
    monkeypatch.setattr(fuzz_cuda, "CASES", [NAMED[SUMS]])
    monkeypatch.setattr(fuzz_cuda, "BATCH", 2)
    words = ["--pairs", "2", "--seed", "1", "--processes", "1", "--state", str(state)]
    assert fuzz_cuda.main([*words, "--device"]) == 0
    printed = capsys.readouterr().out
    assert "3 pairs, wrong: 0" in printed and "with the same verdict on the GPU" in printed
    generators = [json.loads(line)["chunk"]["generator"] for line in state.read_text().splitlines()]
    assert generators == [fuzz_cuda.LIBRARY, fuzz_cuda.ON_GPU]
    assert fuzz_cuda.main([*words, "--device"]) == 0 and "3 of 3" not in capsys.readouterr().out
    assert fuzz_cuda.main(words) == 0 and "2 pairs, wrong: 0" in capsys.readouterr().out


def test_results_with_and_without_a_gpu_are_kept_apart() -> None:
    with_gpu, without = (fuzz_cuda.planned(1, 100, device) for device in (True, False))
    assert not set(with_gpu) & set(without)
    assert with_gpu[0] == Chunk(fuzz_cuda.LIBRARY, 0, 0, 1) and sum(c.count for c in with_gpu[1:]) == 4


# ------------------------------------------------------------------ where there is a GPU
@pytest.mark.gpu
@EMULATED
def test_the_emulation_agrees_with_the_gpu_of_this_machine() -> None:
    if reason := on_gpu.why_not():
        pytest.skip(reason)
    with OnGpu() as gpu:
        for found in (check_schedules(on_gpu=gpu), check_batch(1, range(25), gpu)):
            assert [f.what for f in found.faults] == []
            assert found.checks["with the same verdict on the GPU"] == found.checks["run"]
