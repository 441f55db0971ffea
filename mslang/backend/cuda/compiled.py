"""What a compiler of CUDA C gives: an image and its log."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from mslang.diagnostics import MsError, problem

_SHOWN = 20
"""Lines of a compiler's log that an error shows."""


class Compiled(NamedTuple):
    """An image, cubin or PTX, and what the compiler reported."""

    image: bytes
    log: str


class Compiler(Protocol):
    """NVRTC or nvcc."""

    def __call__(self, source: str, arch: str, form: str) -> Compiled:
        """The source as `form`, "cubin" or "ptx", for an architecture (`"sm_80"`)."""

    def version(self) -> str:
        """Its name and version."""


def refused(compiler: str, source: str, log: str) -> MsError:
    """The error for a source that a compiler does not take."""
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines
    return MsError(
        problem(
            "MS443",
            f"{compiler} rejects the source generated from this program",
            why="\n".join(errors[:_SHOWN]) or "it prints no message",
            help="`--stage cuda` prints the source. Unless the text of an instruction is wrong, this is a bug in "
            "mslang's code generator: please report it with the program",
        )
    )
