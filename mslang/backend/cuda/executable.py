"""A module compiled for a GPU: its source, its image, how it is launched, and what it takes."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import msgspec
from msgspec.structs import replace

from mslang.backend.cuda import toolkit
from mslang.backend.cuda.compilers import compiler, installed_compiler
from mslang.backend.cuda.resources import Resources, read_resources
from mslang.backend.cuda.source import Source, cuda_source
from mslang.diagnostics import TargetError, problem
from mslang.kernel.nodes import Module
from mslang.runtime.signature import Parameter, Signature
from mslang.target.description import Target

DEFAULT_ARCHITECTURE = "sm_80"
"""The architecture of a target that names none."""


class CudaExecutable(msgspec.Struct, frozen=True):
    """A compiled module. `image` is None where only texts were wanted, or no compiler is installed."""

    source: Source
    signature: Signature
    target: Target
    image: bytes | None = None
    resources: tuple[Resources, ...] = ()

    def loadable(self) -> CudaExecutable:
        """The executable with its image.

        Raises:
            TargetError: MS444, no compiler is installed. MsError: MS443, the compiler refuses the source.
        """
        return self if self.image is not None else self._made(architecture(self.target))

    def loadable_on(self, sm: int) -> CudaExecutable:
        """The executable with an image that a GPU of an architecture (80, 90) loads.

        A cubin runs on later GPUs of its generation only; for those of the next ones the source is compiled again.
        Raises as `loadable`.

        Source: CUDA C++ Programming Guide, "Binary Compatibility"
        """
        if number_of(architecture(self.target)) // 10 == sm // 10:
            return self.loadable()
        return self._made(f"sm_{sm}")

    def _made(self, arch: str) -> CudaExecutable:
        made = compiler()(self.source.text, arch, "cubin")
        return replace(self, image=made.image, resources=read_resources(made.log))

    @property
    def ptx(self) -> str:
        """The source in PTX; raises as `loadable` does."""
        return compiler()(self.source.text, architecture(self.target), "ptx").image.rstrip(b"\0").decode()

    @property
    def usage(self) -> str:
        """The resources of each kernel, one a line; raises as `loadable` does."""
        return "\n".join(r.text for r in self.loadable().resources)

    @property
    def sass(self) -> str:
        """The machine code as text.

        Raises:
            TargetError: MS448, no disassembler is installed; MS444, no compiler.
        """
        return disassembled(self.loadable().image or b"")


def architecture(target: Target) -> str:
    """The architecture of a target, as compilers name it: `"sm_90a"`."""
    return str(target.fields.get("arch", DEFAULT_ARCHITECTURE))


def number_of(arch: str) -> int:
    """The number of an architecture: 90 of `"sm_90a"`."""
    return int("".join(c for c in arch if c.isdigit()))


def compiled(module: Module, target: Target, text_only: bool = False) -> CudaExecutable:
    """A module for a GPU.

    Args:
        module: functions for threads, after all passes.
        target: the GPU.
        text_only: whether the image is left out; it is made when a stage or loading needs it.

    Raises:
        MsError: MS440, MS441, MS442, the module cannot be written in CUDA C; MS443, the compiler refuses the source.
    """
    source = cuda_source(module, target)
    signature = Signature(
        module.name,
        # A call copies arrays to memory of the device, which is aligned.
        tuple(replace(Parameter.of(p), align=1) for p in module.params),
        module.dynamic,
    )
    made = CudaExecutable(source, signature, target)
    return made if text_only or installed_compiler() is None else made.loadable()


def disassembled(image: bytes) -> str:
    """The machine code of a cubin as text, by `nvdisasm` or `cuobjdump`.

    Raises:
        TargetError: MS448, neither is installed.
    """
    for name, options in (("nvdisasm", ()), ("cuobjdump", ("-sass",))):
        path = toolkit.program(name)
        if path is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "kernel.cubin")
            file.write_bytes(image)
            done = subprocess.run([path, *options, str(file)], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return done.stdout
    raise TargetError(
        problem(
            "MS448",
            "no disassembler of GPU code is installed",
            why="neither `nvdisasm` nor `cuobjdump` was found, or neither reads the image",
            help="install the CUDA toolkit's binary utilities; `--stage ptx` needs only a compiler",
        )
    )
