"""Launches and copies on a device that notes what it is asked for; compilers as far as they are installed."""

import ctypes
import os
import pickle
import shutil
import stat
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.cuda import compilers, device, executable, toolkit
from mslang.backend.cuda.backend import CUDA as BACK_END
from mslang.backend.cuda.compiled import Compiled
from mslang.backend.cuda.executable import CudaExecutable, compiled
from mslang.backend.cuda.loaded import LoadedModule
from mslang.backend.cuda.nvcc import Nvcc
from mslang.backend.cuda.nvrtc import Nvrtc
from mslang.backend.cuda.resources import Resources, read_resources
from mslang.backend.registry import serving
from mslang.diagnostics import MsError, TargetError
from mslang.ir.expr import Binary, Const, DynamicRange, Load, Symbol
from mslang.ir.program import Param
from mslang.kernel.nodes import Function, If, Module, Store
from mslang.sema.modules import load
from mslang.sema.targets import describe
from mslang.target.description import CUDA, SM_80, SM_90
from tests.unit.cuda.kernels import BX, KERNELS, TX, buffer, finished, launch, n, plus, times

NVCC = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


class FakeDevice:
    """Memory in Python; a launch runs a Python function of its arguments in place of the kernel."""

    name, sm, l2 = "fake", 80, 1 << 20

    def __init__(self, **kernels: Any) -> None:
        self.kernels = kernels
        self.memory: dict[int, np.ndarray] = {}
        self.log: list[tuple[Any, ...]] = []
        self.clock = 0.0
        self.cost = 1e-3

    def allocate(self, size: int) -> int:
        address = 256 * (len(self.log) + 1)
        self.log.append(("allocate", size))
        self.memory[address] = np.zeros(size, np.uint8)
        return address

    def free(self, address: int) -> None:
        del self.memory[address]

    def put(self, address: int, array: np.ndarray) -> None:
        self.memory[address][...] = array.view(np.uint8)

    def get(self, array: np.ndarray, address: int) -> None:
        array.view(np.uint8)[...] = self.memory[address]

    def copy(self, address: int, source: int, size: int) -> None:
        self.log.append(("copy", size))
        self.clock += 5.0
        self.memory[address][:size] = self.memory[source][:size]

    def fill(self, address: int, size: int) -> None:
        self.log.append(("fill", size))
        self.clock += 7.0

    def function(self, image: bytes, name: str, dynamic_shared: int) -> str:
        self.log.append(("function", image, name, dynamic_shared))
        return name

    def launch(self, function: str, grid: Any, block: Any, dynamic_shared: int, arguments: list[Any]) -> None:
        self.log.append(("launch", function, grid, block, dynamic_shared))
        self.clock += self.cost
        self.kernels[function](*(self.memory[int(a)] if a.dtype == np.uint64 else int(a) for a in arguments))

    def mark(self) -> float:
        self.log.append(("mark",))
        return self.clock

    def seconds(self, before: float, after: float) -> float:
        return after - before

    def finish(self) -> None:
        self.log.append(("finish",))

    def launches(self) -> list[tuple[Any, ...]]:
        return [entry[1:] for entry in self.log if entry[0] == "launch"]


SIZE = Symbol("M", DynamicRange(1, 1 << 20))


def two_kernels() -> Module:
    """`out = 2 * X`, then `out = out + 1`, through a workspace; the size is known at the call."""
    x, half, out = (buffer(name, "f32", SIZE) for name in ("X", "half", "out"))
    at = plus(times(BX, 64), TX)
    inside = Binary("<", at, SIZE)
    first = If(inside, (Store("half", (at,), times(Load("X", (at,), "f32"), Const(2.0, "f32"))),))
    second = If(inside, (Store("out", (at,), plus(Load("half", (at,), "f32"), Const(1.0, "f32"))),))
    grid = Binary("//", plus(SIZE, 63), n(64))
    functions = (
        Function("first", (x, half), (first,), launch((grid,), (64,))),
        Function("second", (half, out), (second,), launch((grid,), (64,))),
    )
    return Module("two", (Param(x), Param(out, "out")), functions, (SIZE,), (half,))


def twice(x: np.ndarray, out: np.ndarray, size: int) -> None:
    out.view(np.float32)[:size] = 2 * x.view(np.float32)[:size]


def plus_one(x: np.ndarray, out: np.ndarray, size: int) -> None:
    out.view(np.float32)[:size] = x.view(np.float32)[:size] + 1


def loaded(fake: FakeDevice, module: Module) -> LoadedModule:
    made = compiled(finished(module, CUDA), CUDA, text_only=True)
    return LoadedModule(replace(made, image=b"image"), fake)


def test_kernels_run_in_order_with_their_arguments() -> None:
    fake = FakeDevice(first=twice, second=plus_one)
    kernel = loaded(fake, two_kernels())
    x = np.arange(100, dtype=np.float32)
    assert kernel(x).tolist() == (2 * x + 1).tolist()
    assert fake.launches() == [("first", (2, 1, 1), (64, 1, 1), 0), ("second", (2, 1, 1), (64, 1, 1), 0)]
    assert fake.log[:2] == [("function", b"image", "first", 0), ("function", b"image", "second", 0)]
    assert ("allocate", 400) in fake.log
    assert repr(kernel) == "<kernel two(X, out)>"


def test_memory_is_freed_with_the_call() -> None:
    fake = FakeDevice(first=twice, second=plus_one)
    kernel = loaded(fake, two_kernels())
    bound = kernel.bind(np.zeros(64, np.float32))
    assert len(fake.memory) == 3
    bound.run(times=3)
    assert len(fake.launches()) == 6
    del bound
    assert not fake.memory


def test_arguments_are_checked_as_on_cpus() -> None:
    kernel = loaded(FakeDevice(first=twice, second=plus_one), two_kernels())
    with pytest.raises(MsError, match="holds float64, expected float32"):
        kernel(np.zeros(4))
    with pytest.raises(MsError, match="has no parameter Z"):
        kernel.pack("Z", np.zeros(4))


def test_rows_with_padding_between_them_travel_whole() -> None:
    x = replace(buffer("X", "f32", 4, 3), strides=(n(8), n(1)))
    out = buffer("out", "f32", 4)
    body = (Store("out", (TX,), Load("X", (TX, n(2)), "f32")),)
    module = Module("rows", (Param(x), Param(out, "out")), (Function("rows", (x, out), body, launch((1,), (4,))),))

    def rows(x: np.ndarray, out: np.ndarray) -> None:
        assert x.size == 4 * (3 * 8 + 3)
        out.view(np.float32)[...] = x.view(np.float32)[2::8]

    whole = np.arange(32, dtype=np.float32).reshape(4, 8)
    assert loaded(FakeDevice(rows=rows), module)(whole[:, :3]).tolist() == [2, 10, 18, 26]


def test_a_launch_without_blocks_is_left_out() -> None:
    size = Symbol("M", DynamicRange(0, 64))
    out = buffer("out", "f32", size)
    body = (Store("out", (BX,), Const(0.0, "f32")),)
    module = Module("none", (Param(out, "out"),), (Function("none", (out,), body, launch((size,), (1,))),), (size,))
    fake = FakeDevice(none=lambda *_: None)
    loaded(fake, module)(np.zeros(0, np.float32))
    assert fake.launches() == []


def test_dynamic_shared_memory_is_asked_for() -> None:
    fake = FakeDevice(histogram=lambda *_: None)
    loaded(fake, KERNELS["histogram"]())(np.zeros(100000, np.uint8))
    assert fake.log[0] == ("function", b"image", "histogram", 1024)
    assert fake.launches() == [("histogram", (391, 1, 1), (256, 1, 1), 1024)]


# ------------------------------------------------------------------ executables
def test_an_executable_can_be_pickled() -> None:
    made = compiled(KERNELS["gemm"](), CUDA, text_only=True)
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.image is None


def test_the_back_end_serves_gpus() -> None:
    assert serving(CUDA) is BACK_END
    assert serving(SM_90).name == "cuda"


@pytest.mark.parametrize("target", [SM_80, SM_90])
def test_targets_of_the_library_are_those_of_the_command_line(target: Any, tmp_path: Path) -> None:
    module = load(str(tmp_path / "own.ms"), "use std.cuda.{sm_80, sm_90}\n")
    found = describe(module, target.name)
    assert dict(found.fields) == dict(target.fields)


LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 4096 bytes smem, 376 bytes cmem[0]
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Used 12 registers, 360 bytes cmem[0]
"""


def test_resources_are_read_from_the_log() -> None:
    assert read_resources(LOG) == (Resources("first", 40, 4096, 16, 8, 12), Resources("second", 12))
    assert read_resources(LOG)[0].text == "first: 40 registers, 4096 bytes of shared memory, 8 bytes spilled"


@NVCC
@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nvcc_compiles_and_reports(arch: str) -> None:
    path = shutil.which("nvcc")
    assert path is not None
    made = Nvcc(path)(compiled(KERNELS["gemm"](), CUDA, text_only=True).source.text, arch, "cubin")
    assert made.image.startswith(b"\x7fELF")
    (found,) = read_resources(made.log)
    assert found.function == "gemm"
    assert found.shared >= 4 * (64 * 16 + 16 * 64)
    assert found.spill_stores == 0
    assert b".target " + arch.encode() in Nvcc(path)(KERNEL, arch, "ptx").image
    assert Nvcc(path).version().startswith("nvcc 1")


KERNEL = 'extern "C" __global__ void f(float* x) { x[0] = 1.0f; }'


@NVCC
@pytest.mark.nvcc
def test_nvcc_refuses_with_its_reason() -> None:
    path = shutil.which("nvcc")
    assert path is not None
    with pytest.raises(
        MsError, match=r"nvcc rejects the source(.|\n)*kernel.cu\(1\): error: identifier \"y\" is undefined"
    ):
        Nvcc(path)('extern "C" __global__ void f(float* x) { y = 1; }', "sm_80", "cubin")


class FakeNvrtc:
    """The functions of NVRTC, for one source."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.options: list[bytes] = []
        self.open = 0
        self.nvrtcGetErrorString = Answer()

    def nvrtcCreateProgram(self, program: Any, source: bytes, *_: Any) -> int:
        self.open += 1
        return 0

    def nvrtcDestroyProgram(self, program: Any) -> int:
        self.open -= 1
        return 0

    def nvrtcCompileProgram(self, program: Any, count: int, words: Any) -> int:
        self.options = list(words[:count])
        return self.status

    def nvrtcVersion(self, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = 13, 0
        return 0

    def __getattr__(self, name: str) -> Any:
        texts = {"ProgramLog": LOG.encode() + b"kernel.cu(1): error: no\0", "CUBIN": b"\x7fELF", "PTX": b".version\0"}
        text = texts[name.removeprefix("nvrtcGet").removesuffix("Size")]

        def size(program: Any, out: Any) -> int:
            out._obj.value = len(text)
            return 0

        def read(program: Any, out: Any) -> int:
            ctypes.memmove(out, text, len(text))
            return 0

        return size if name.endswith("Size") else read


class Answer:
    restype: Any = None

    def __call__(self, status: int) -> bytes:
        return b"NVRTC_ERROR_OUT_OF_MEMORY"


def test_nvrtc_is_called_as_documented(tmp_path: Path) -> None:
    library = FakeNvrtc()
    made = Nvrtc(library, (tmp_path,))("source", "sm_90a", "cubin")
    assert made.image == b"\x7fELF"
    assert read_resources(made.log)[0].registers == 40
    assert b"--gpu-architecture=sm_90a" in library.options
    assert f"--include-path={tmp_path}".encode() in library.options
    assert Nvrtc(library)("source", "sm_90a", "ptx").image == b".version\0"
    assert b"--gpu-architecture=compute_90a" in library.options
    assert library.open == 0
    assert Nvrtc(library).version() == "nvrtc 13.0"


def test_faults_of_nvrtc_are_reported() -> None:
    library = FakeNvrtc(6)
    with pytest.raises(MsError, match=r"NVRTC rejects the source(.|\n)*kernel.cu\(1\): error: no"):
        Nvrtc(library)("source", "sm_80", "cubin")
    assert library.open == 0
    with pytest.raises(MsError, match="NVRTC_ERROR_OUT_OF_MEMORY"):
        Nvrtc(FakeNvrtc(1))("source", "sm_80", "cubin")


# ------------------------------------------------------------------ what is absent
@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(toolkit, "program", lambda name: None)
    monkeypatch.setattr(toolkit, "libraries", lambda stem: iter(()))
    compilers.installed_compiler.cache_clear()
    device.device.cache_clear()
    yield
    compilers.installed_compiler.cache_clear()
    device.device.cache_clear()


def test_without_a_compiler_the_source_is_printed_and_the_rest_refused(nothing_installed: None) -> None:
    made = compiled(KERNELS["gemm"](), CUDA)
    assert made.image is None
    assert "__launch_bounds__" in made.source.text
    assert BACK_END.version() == "cuda"
    with pytest.raises(TargetError, match="no compiler of CUDA C is installed") as found:
        made.loadable()
    assert "pip install '.[nvrtc]'" in str(found.value)
    with pytest.raises(TargetError, match="no compiler of CUDA C"):
        _ = made.ptx


def test_without_a_disassembler_machine_code_is_not_shown(nothing_installed: None) -> None:
    with pytest.raises(TargetError, match="neither `nvdisasm` nor `cuobjdump`"):
        _ = CudaExecutable(compiled(KERNELS["gemm"](), CUDA).source, None, CUDA, b"image").sass  # type: ignore[arg-type]


def test_a_disassembler_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\necho "disassembly of $(cat "$1")"\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert executable.disassembled(b"image") == "disassembly of image\n"


def test_without_pycuda_running_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    device.device.cache_clear()
    with pytest.raises(TargetError, match="pycuda, which cannot be imported") as found:
        device.device()
    assert "pip install '.[cuda]'" in str(found.value)
    assert "pip install '.[cuda]'" in (BACK_END.unavailable(SM_80) or "")


class FakeDriver(SimpleNamespace):
    """`pycuda.driver` with one device."""

    class Error(Exception):
        pass

    class MemoryError(Error):
        pass

    def __init__(self, count: int = 1, fault: str | None = None) -> None:
        own = SimpleNamespace(
            name=lambda: "GPU",
            compute_capability=lambda: (8, 0),
            retain_primary_context=lambda: SimpleNamespace(push=self.push, synchronize=self.wait),
            get_attribute=lambda attribute: 40 << 20,
        )

        class Device:
            def __new__(cls, number: int) -> Any:
                return own

            @staticmethod
            def count() -> int:
                return count

        super().__init__(
            Device=Device,
            Context=SimpleNamespace(pop=self.pop),
            fault=fault,
            device_attribute=SimpleNamespace(L2_CACHE_SIZE=0),
            entered={},
        )

    def push(self) -> None:
        here = threading.get_ident()
        self.entered[here] = self.entered.get(here, 0) + 1

    def pop(self) -> None:
        self.entered[threading.get_ident()] -= 1

    def init(self) -> None:
        if self.fault == "init":
            raise self.Error("cuInit failed: no CUDA-capable device is detected")

    def wait(self) -> None:
        if self.fault == "launch":
            raise self.Error("an illegal memory access was encountered")

    def memcpy_dtod_async(self, dest: int, source: int, size: int) -> None:
        self.copied = (dest, source, size)

    def mem_alloc(self, size: int) -> Any:
        if not self.entered.get(threading.get_ident()):
            raise self.Error("invalid device context")
        if self.fault == "memory":
            raise self.MemoryError("out of memory")
        return Memory(4096)


class Memory(int):
    freed = 0

    def free(self) -> None:
        Memory.freed += 1


def with_driver(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", SimpleNamespace(driver=driver))
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    monkeypatch.setattr(device, "device", getattr(device.device, "__wrapped__", device.device))


def test_without_a_driver_or_a_device_running_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with_driver(monkeypatch, FakeDriver(fault="init"))
    with pytest.raises(TargetError, match="no CUDA-capable device is detected"):
        device.device()
    with_driver(monkeypatch, FakeDriver(count=0))
    with pytest.raises(TargetError, match="the driver lists no device"):
        device.device()


def test_an_older_gpu_is_not_used_for_a_newer_target(monkeypatch: pytest.MonkeyPatch) -> None:
    with_driver(monkeypatch, FakeDriver())
    assert BACK_END.unavailable(SM_80) is None
    assert BACK_END.unavailable(SM_90) == "GPU is of sm_80"


def test_code_of_one_architecture_alone_is_not_run_on_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    with_driver(monkeypatch, driver)
    only = replace(SM_80, extra=(*(x for x in SM_80.extra if x[0] != "arch"), ("arch", "sm_75a")))
    assert BACK_END.unavailable(only) == "GPU is of sm_80"


@pytest.mark.parametrize(("sm", "compiled_for"), [(80, []), (86, []), (90, ["sm_90"]), (100, ["sm_100"])])
def test_a_gpu_of_a_later_generation_gets_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, sm: int, compiled_for: list[str]
) -> None:
    """A cubin for sm_80 runs on sm_86, and not on sm_90."""
    seen: list[str] = []

    def compile_here(source: str, arch: str, form: str) -> Compiled:
        seen.append(arch)
        return Compiled(b"another", "")

    monkeypatch.setattr("mslang.backend.cuda.executable.compiler", lambda: compile_here)
    fake = FakeDevice(first=twice, second=plus_one)
    fake.sm = sm
    kernel = loaded(fake, two_kernels())
    assert seen == compiled_for and kernel.executable.image == (b"another" if compiled_for else b"image")


def test_errors_of_the_driver_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with_driver(monkeypatch, FakeDriver(fault="launch"))
    with pytest.raises(MsError, match="an illegal memory access was encountered"):
        device.device().finish()
    with_driver(monkeypatch, FakeDriver(fault="memory"))
    with pytest.raises(MsError, match="has no 1,024 bytes of memory left"):
        device.device().allocate(1024)
    with_driver(monkeypatch, FakeDriver())
    here = device.device()
    address = here.allocate(16)
    here.free(address)
    here.free(address)
    assert Memory.freed == 1
    assert (here.name, here.sm, here.l2) == ("GPU", 80, 40 << 20)


def test_a_copy_on_the_device_is_asked_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    with_driver(monkeypatch, driver)
    here = device.device()
    here.copy(4096, 8192, 16)
    here.copy(0, 0, 0)
    assert driver.copied == (4096, 8192, 16), "nothing is copied where there is nothing"


def test_another_thread_enters_the_context_and_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    with_driver(monkeypatch, driver)
    here = device.device()
    with ThreadPoolExecutor(1) as other:
        assert other.submit(here.allocate, 16).result() == 4096
        there = other.submit(threading.get_ident).result()
    assert driver.entered == {threading.get_ident(): 1, there: 0}
    driver.fault = "memory"
    with ThreadPoolExecutor(1) as other, pytest.raises(MsError, match="has no 16 bytes of memory left"):
        other.submit(here.allocate, 16).result()
    assert sum(driver.entered.values()) == 1, "left after an error, too"


def test_a_workspace_with_declared_strides_takes_the_memory_between_its_rows() -> None:
    module = two_kernels()
    half = replace(module.workspaces[0], strides=(Const(3),))
    strided = replace(
        module,
        workspaces=(half,),
        functions=tuple(
            replace(f, params=tuple(half if b.name == "half" else b for b in f.params)) for f in module.functions
        ),
    )
    fake = FakeDevice(first=lambda *_: None, second=lambda *_: None)
    loaded(fake, strided)(np.zeros(100, np.float32))
    assert ("allocate", 4 * (1 + 99 * 3)) in fake.log
