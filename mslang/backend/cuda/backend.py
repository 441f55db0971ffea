"""CUDA as a back end: GPUs of NVIDIA, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mslang.backend.backend import BackEnd, Bound, BoundTogether, Library, LibraryPart, Loaded, Options, Stage
from mslang.ir.program import Program
from mslang.runtime.timing import Limits, Timing
from mslang.target.description import Target

if TYPE_CHECKING:
    from mslang.backend.cuda.executable import CudaExecutable
    from mslang.kernel.nodes import Module
    from mslang.lower.passes import Pass
    from mslang.schedule.session import Session
    from mslang.schedule.space import Candidate


def by_default(program: Program, target: Target) -> Candidate:
    """The default schedule of a program; one without steps if it binds a loop."""
    from mslang.backend.cuda.default import default_schedule

    return default_schedule(program, target)


def finish(session: Session, target: Target) -> None:
    """Share the nests that a running schedule has left on no thread."""
    from mslang.backend.cuda.default import finish

    finish(session, target)


def shared_out(program: Program) -> Program:
    """The program whose threads share out marked copies and combine what they have reduced; raises as `prepared`."""
    from mslang.lower.gpu.lower import prepared

    return prepared(program)


def passes() -> Sequence[Pass]:
    """The passes of lowering for the threads of a GPU."""
    from mslang.lower.gpu import PASSES

    return PASSES


def compile_module(module: Module, target: Target, options: Options) -> CudaExecutable:
    """The source and, unless only texts are wanted, the image; raises as `executable.compiled` does."""
    from mslang.backend.cuda.executable import compiled

    return compiled(module, target, options.text_only)


def load_module(executable: CudaExecutable) -> Loaded:
    """The image on the GPU of this machine.

    Raises:
        TargetError: MS445, MS446, there is no GPU; MS444, there is no compiler.
        MsError: MS443, the compiler refuses the source; MS447, the driver refuses the image.
    """
    from mslang.backend.cuda.device import device
    from mslang.backend.cuda.loaded import LoadedModule

    return LoadedModule(executable, device())


def version() -> str:
    """The compiler's name and version; `cuda` where none is installed."""
    from mslang.backend.cuda.compilers import installed_compiler

    found = installed_compiler()
    return "cuda" if found is None else found.version()


def device_name() -> str:
    """The GPU that runs the code; `CUDA` where there is none."""
    from mslang.backend.cuda.device import device, unavailable

    return "CUDA" if unavailable() is not None else device().name


def why_no_card(target: Target) -> str | None:
    """Why this machine cannot run code for a target: pycuda, the driver, the GPU or its architecture is missing."""
    from mslang.backend.cuda.device import device, unavailable
    from mslang.backend.cuda.executable import architecture, number_of

    reason = unavailable()
    if reason is not None:
        return reason
    arch, here = architecture(target), device()
    # Instructions of an architecture with a letter (sm_90a) exist on it alone.
    runs = here.sm == number_of(arch) if arch[-1].isalpha() else here.sm >= number_of(arch)
    return None if runs else f"{here.name} is of sm_{here.sm}"


def timed(bound: Bound, limits: Limits, restore: Callable[[], None] | None) -> Timing:
    """The time of single runs by events; of kernels that are run as one the sum of their times.

    `restore` gives the caller's arrays their first contents back. They are copied to the GPU once, before the first
    run; before each run the GPU copies what runs change from there.
    """
    from mslang.backend.cuda.loaded import BoundModule, time_together

    if restore is not None:
        restore()
    modules: list[tuple[BoundModule, int]] = []
    for part, calls in bound.parts if isinstance(bound, BoundTogether) else ((bound, 1),):
        assert isinstance(part, BoundModule), "what this back end has loaded"
        modules.append((part, calls))
    return time_together(modules, limits)


def peak(target: Target, dtype: str, refresh: bool) -> float | None:
    """The calculated peak of the GPU, in operations a second; None where an element type or the GPU is not known."""
    from mslang.backend.cuda.peak import card_of

    return card_of(target).peak(dtype)


def ceiling(target: Target, dtype: str, refresh: bool) -> float | None:
    """The operations a second above which a time is impossible, with a margin for the clock."""
    from mslang.backend.cuda.peak import card_of

    return card_of(target).ceiling(dtype)


def bandwidth(target: Target) -> float | None:
    """Bytes a second to and from the GPU's memory at most."""
    from mslang.backend.cuda.peak import card_of

    return card_of(target).bandwidth


def library(parts: Sequence[LibraryPart], name: str, about: str, allow_native: bool) -> Library:
    """CUDA C with a host function, PTX and cubins; raises as `mslang.backend.cuda.library.library` does."""
    from mslang.backend.cuda.library import library

    return library(parts, name, about, CUDA.lowered)


def _source(executable: CudaExecutable) -> str:
    return executable.source.text


def _ptx(executable: CudaExecutable) -> str:
    return executable.ptx


def _sass(executable: CudaExecutable) -> str:
    return executable.sass


def _resources(executable: CudaExecutable) -> str:
    return executable.usage


CUDA = BackEnd(
    "cuda",
    ("cuda",),
    compile_module,
    load_module,
    version,
    passes=passes,
    plain=False,
    emulates=False,
    default=by_default,
    finish=finish,
    prepare=shared_out,
    unavailable=why_no_card,
    stages=(
        Stage("cuda", "the CUDA C source", _source),
        Stage("ptx", "the code of the virtual machine", _ptx),
        Stage("sass", "the machine code", _sass),
        Stage("resources", "registers, shared memory and spills of each kernel", _resources),
    ),
    peak=peak,
    peak_basis="at the GPU's boost clock",
    ceiling=ceiling,
    bandwidth=bandwidth,
    time=timed,
    library=library,
    device=device_name,
    caches="cold",
)
"""The back end of NVIDIA's GPUs."""
