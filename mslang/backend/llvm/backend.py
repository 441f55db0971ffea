"""LLVM as a back end: CPUs, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mslang.backend.backend import BackEnd, Library, LibraryPart, Loaded, Options, Stage
from mslang.backend.llvm.clock import CLOCK
from mslang.target.description import Target

if TYPE_CHECKING:
    from mslang.backend.llvm.compile import Executable
    from mslang.kernel.nodes import Module
    from mslang.lower.passes import Pass


def compile_module(module: Module, target: Target, options: Options) -> Executable:
    """An object for the target; raises as `mslang.backend.llvm.compile.compile` does."""
    from mslang.backend.llvm.compile import compile

    return compile(module, target, options.allow_native, options.lines, options.origins)


def load_object(executable: Executable) -> Loaded:
    """The object, linked into this process.

    Raises:
        MsError: MS416, it cannot be linked here.
    """
    from mslang.runtime.kernel import load

    return load(executable.object, executable.signature)


def lacking(target: Target) -> str | None:
    """The instructions of a target that this processor lacks."""
    from mslang.target.detect import host

    missing = sorted(set(target.features) - set(host().features))
    return f"it lacks {', '.join(missing)}" if missing else None


def version() -> str:
    """LLVM's version."""
    import llvmlite.binding as llvm

    return "llvm " + ".".join(map(str, llvm.llvm_version_info))


def peak(target: Target, dtype: str, refresh: bool) -> float:
    """The measured peak of all cores, in operations a second."""
    from mslang.target.limits import measured_limits

    return measured_limits(target, dtype, refresh=refresh).peak


def bandwidth(target: Target) -> float:
    """The measured rate of a copy in memory, in bytes a second read and written."""
    from mslang.target.limits import measured_limits

    return measured_limits(target).bandwidth


def library(parts: Sequence[LibraryPart], name: str, about: str, allow_native: bool) -> Library:
    """C headers, objects and shared libraries; raises as `mslang.backend.aot.library.library` does."""
    from mslang.backend.aot.library import library

    return library(parts, name, about, allow_native, LLVM.lowered)


def _llvm(executable: Executable) -> str:
    return executable.llvm


def _assembly(executable: Executable) -> str:
    from mslang.backend.llvm.listing import listing

    return listing(executable.assembly, executable.lines, executable.target)


def cpu_passes() -> Sequence[Pass]:
    """The passes of lowering for CPUs."""
    from mslang.lower.passes import PASSES

    return PASSES


LLVM = BackEnd(
    "llvm",
    ("cpu",),
    compile_module,
    load_object,
    version,
    cpu_passes,
    emulates=False,
    checks=True,
    unavailable=lacking,
    stages=(Stage("llvm", "the LLVM module", _llvm), Stage("asm", "the machine code", _assembly, lines=True)),
    peak=peak,
    bandwidth=bandwidth,
    library=library,
    clock=CLOCK,
)
"""The back end of CPUs."""
