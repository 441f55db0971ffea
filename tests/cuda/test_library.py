"""The library's schedules for GPUs: equal to the interpreter on small sizes, and without a fault."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from mslang.backend.cuda.nvcc import Nvcc
from mslang.backend.reference import interpret
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const
from mslang.kernel import Allocate, Function
from mslang.kernel.visit import walk
from mslang.lower.gpu.memory import elements
from mslang.lower.summary import summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.target.description import SM_80
from tests.cuda.emulator import why_not
from tests.cuda.library import CASES, GEMM, NAMED, ONLINE, check_schedules, made_of, scheduled
from tests.cuda.modules import made

MODULES = tuple(dict.fromkeys(c.module for c in CASES))


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.one_in(2)
def test_schedules_compute_what_the_program_says(module: str) -> None:
    """One run of g++ compiles those of a module."""
    cases = [c for c in CASES if c.module == module]
    found = check_schedules(cases)
    assert [f.what for f in found.faults] == [] and found.pairs == len(cases)


def allocated(f: Function, scopes: frozenset[str]) -> int:
    """Bytes of the buffers of some scopes that a function allocates."""
    buffers = [s.buffer for s in walk(f.body) if isinstance(s, Allocate) and s.buffer.scope in scopes]
    return sum(elements(b) * size_of(b.dtype) for b in buffers)


@pytest.mark.parametrize("name", NAMED)
def test_launches_have_what_the_summary_says(name: str) -> None:
    """Limits are checked of the summary: it says what the kernels have that run, exchanges of threads included."""
    kernels = made_of(name)
    functions = kernels.module.functions
    nests = summarize(lower_symbolic(kernels.program, SM_80), SM_80).nests
    for f, nest in zip(functions, nests, strict=True):
        assert f.launch is not None
        assert (nest.grid, nest.block) == (f.launch.grid, f.launch.block)
        assert nest.shared == Const(allocated(f, frozenset({"shared", "shared.dyn"})))
        assert nest.local == Const(allocated(f, frozenset({"local"})))


def test_attention_by_tiles_is_attention() -> None:
    """A running maximum with rescaling gives what the plain program gives; nothing on the chip grows with the keys."""
    sizes = {"B": 2, "L": 5, "T": 24, "D": 6}
    random = np.random.default_rng(0)
    arrays = {
        n: random.standard_normal((2, sizes[m], 6)).astype(np.float32) for n, m in (("Q", "L"), ("K", "T"), ("V", "T"))
    }
    arrays["Q"] *= 20.0  # maxima that rise from tile to tile, weights that vanish
    online = scheduled(
        ONLINE, "by_tiles", f"{ONLINE}.online_attention", {**sizes, "TILE": 8}, "rows = 2, across = 2, vector = 1"
    )
    plain = scheduled("std.cuda.attention", "fused_queries", "attention", sizes, "rows = 1, across = 2, vector = 1")
    found, wanted = (interpret.run(p, arrays)["O"] for p in (online, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    short, long = (
        made(scheduled(ONLINE, "by_tiles", f"{ONLINE}.online_attention", {"T": t}, ""), SM_80).source.text
        for t in (1024, 65536)
    )
    declared = re.compile(r"(?:__shared__|__align__\(16\)) .*\[\d+\];")
    assert declared.findall(short) == declared.findall(long) != []


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nvcc_takes_every_schedule_with_its_defaults(arch: str) -> None:
    """All in one file, which takes a quarter of the time that one each does."""
    includes, spaces = set[str](), list[str]()
    for module, schedule, workload in sorted({c[:3] for c in CASES if not c.schedule.endswith("_drawn")}):
        text = made(scheduled(module, schedule, workload, {}, ""), SM_80).source.text.replace('extern "C" ', "")
        lines = text.splitlines()
        includes |= {line for line in lines if line.startswith("#include")}
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        spaces.append(f"namespace {schedule} {{\n{body}\n}}")
    path = shutil.which("nvcc")
    assert path is not None
    compiled = Nvcc(path)("\n".join([*sorted(includes), *spaces]), arch, "cubin")
    assert compiled.log.count("Compiling entry function") == sum(x.count("__global__") for x in spaces)
    assert not re.search(r"[1-9]\d* bytes spill", compiled.log), "a schedule's defaults do not fit the registers"


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_contracts_products_and_keeps_arrays_of_a_thread_in_registers() -> None:
    path = shutil.which("nvcc")
    assert path is not None
    source = made(scheduled(GEMM, "simt", "gemm", {}, ""), SM_80).source.text
    ptx = Nvcc(path)(source, "sm_80", "ptx").image.decode()
    assert ptx.count("fma.rn.f32") >= 64
    assert not re.search(r"\b(mul|add)(\.rn)?\.f32|\.local\b", ptx)
