"""Back ends: by name, by target, from Python, from packages; one broken package is one diagnostic."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from mslang import extensions as discovery
from mslang.backend.backend import BackEnd, Options
from mslang.backend.llvm.backend import LLVM
from mslang.backend.reference.backend import REFERENCE, Interpreted, callable_program
from mslang.backend.registry import (
    back_end,
    back_end_names,
    compiling,
    plain_target,
    runnable_target,
    serving,
    unavailable_here,
)
from mslang.diagnostics import MsError, TargetError
from mslang.ir.program import Program
from mslang.target.description import AVX2, GENERIC, Target
from mslang.target.detect import host

NPU = Target("n1", "npu")
TEXT = """program twice[N = 8](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] * 2.0 } }
schedule s for twice { let a, c = b.i.split([2, 4])
  c.vectorize() }
"""


def compiled(program: Program, target: Target, options: Options) -> Interpreted:
    return Interpreted(program)


def version() -> str:
    return "mine 1"


MINE = BackEnd("mine", ("npu",), compiled, callable_program, version, passes=None, plain=False)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package; what it declares is written by the test, before the first look-up."""
    info = tmp_path / "npus-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: npus\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mslang.backends]\nmine = npus_module:MINE\n")
    monkeypatch.syspath_prepend(tmp_path)
    discovery.declared.cache_clear()
    discovery.extension.cache_clear()
    yield tmp_path / "npus_module.py"
    sys.modules.pop("npus_module", None)
    monkeypatch.undo()
    discovery.declared.cache_clear()
    discovery.extension.cache_clear()


def test_the_built_in_ones_come_by_name_and_by_target() -> None:
    assert back_end_names()[:3] == ("llvm", "cuda", "reference")
    assert back_end("llvm") is LLVM is serving(AVX2)
    assert back_end("reference") is REFERENCE


def test_an_unknown_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(MsError, match="MS450") as error:
        back_end("lvm")
    assert "did you mean `llvm`?" in str(error.value)


def test_a_target_that_nothing_serves_is_refused() -> None:
    with pytest.raises(TargetError, match=r"MS404.*no back end compiles for `n1`, a npu target"):
        serving(NPU)


def test_a_cpu_schedule_is_compiled_for_the_machine_at_hand() -> None:
    assert compiling(AVX2, GENERIC) == (LLVM, GENERIC)
    assert compiling(AVX2, GENERIC, "reference") == (REFERENCE, GENERIC)
    assert plain_target(AVX2) is AVX2


def test_what_this_machine_lacks_is_named() -> None:
    odd = Target("odd", features=("no_such_feature",))
    with pytest.raises(TargetError, match=r"MS403.*\n.*it lacks no_such_feature"):
        runnable_target(odd)
    assert runnable_target("generic") == GENERIC
    assert unavailable_here("llvm") is None and unavailable_here("reference") is None


@pytest.mark.parametrize("used", ["llvm", "reference", MINE], ids=["llvm", "reference", "mine"])
def test_a_program_gives_the_same_on_each(used: str | BackEnd) -> None:
    candidate = ms.parse(TEXT).space("s").sample(0)
    kernel = ms.build(candidate, backend=used)
    a = np.arange(8, dtype=np.float32)
    assert (kernel(a) == 2 * a).all()
    b = np.zeros(8, np.float32)
    kernel.bind(A=a, B=b).run()
    assert (b == 2 * a).all()
    assert kernel.time(a, b).samples


def test_the_interpreter_takes_dynamic_sizes_and_packed_parameters() -> None:
    text = """program f[N: dyn(1..16)](A: f32[N, 4], out B: f32[N, 4]) {
        block b[i: N, j: 4] { B[i, j] = A[i, j] + 1.0 } }
    schedule s for f { b.transform_layout(A, fn (i, j) -> [j, i]) }"""
    scheduled = ms.parse(text).space("s").sample(0)
    assert scheduled.program.params[0].packing is not None
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    kernel = ms.build(scheduled, backend="reference")
    assert (kernel(a) == a + 1).all()
    with pytest.raises(MsError, match="MS412"):
        kernel(np.zeros((17, 4), np.float32))
    with pytest.raises(MsError, match="A is not packed"):
        kernel.pack("A", a)


def test_back_ends_and_executables_travel_between_processes() -> None:
    for found in (LLVM, REFERENCE, MINE):
        again = pickle.loads(pickle.dumps(found))
        assert again == found
        executable = again.built(ms.parse(TEXT).program(), host())
        loaded = again.load(pickle.loads(pickle.dumps(executable)))
        assert (loaded(np.ones(8, np.float32)) == 2).all()


def test_a_package_adds_one(package: Path) -> None:
    package.write_text("from tests.unit.backend.test_registry import MINE\n")
    assert back_end_names()[-1] == "mine"
    assert serving(NPU) == MINE == back_end("mine")
    assert plain_target(NPU) == host()
    with pytest.raises(MsError, match="MS404"):
        serving(Target("n2", "vpu"))
    kernel = ms.build(ms.parse(TEXT).program(), NPU)
    assert (kernel(np.ones(8, np.float32)) == 2).all()


def test_a_broken_package_is_one_diagnostic_and_harms_nothing_else(package: Path) -> None:
    package.write_text("import no_such_module\n")
    with pytest.raises(MsError, match=r"MS212.*`mine` of the package npus cannot be loaded") as error:
        back_end("mine")
    assert len(error.value.diagnostics) == 1
    assert serving(host()) is LLVM
    with pytest.raises(TargetError, match=r"MS404(.|\n)*`mine` of the package npus cannot be loaded"):
        serving(NPU)


def test_an_entry_point_that_is_no_back_end_is_refused(package: Path) -> None:
    package.write_text("MINE = 7\n")
    with pytest.raises(MsError, match=r"is not a BackEnd but an int"):
        back_end("mine")


def test_naming_the_built_in_ones_imports_nothing_heavy() -> None:
    code = (
        "from mslang.backend.registry import back_end_names, back_end\n"
        "kinds = [back_end(n).kinds for n in back_end_names()]\n"
        "import sys; print(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "llvmlite"} & set(done.stdout.split())
