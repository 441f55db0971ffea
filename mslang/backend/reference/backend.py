"""The interpreter as a back end: runs any program, slowly, and checks its rules. It serves no kind of target by
itself: it is asked for by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from mslang import __version__
from mslang.backend.backend import BackEnd, Loaded, Options
from mslang.ir.program import Program
from mslang.runtime.function_kernel import FunctionKernel
from mslang.runtime.signature import Signature
from mslang.target.description import Target

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Interpreted(msgspec.Struct, frozen=True):
    """A program to be interpreted: the executable of the reference back end."""

    program: Program

    @property
    def signature(self) -> Signature:
        """What the program takes."""
        # The interpreter takes what the caller of the unscheduled program has: nothing is packed.
        return Signature.of_program(self.program)


def interpreted(program: Program, target: Target, options: Options) -> Interpreted:
    """The program as it is."""
    return Interpreted(program)


def callable_program(executable: Interpreted) -> Loaded:
    """A program that is interpreted when it is called; a call raises MsError if it breaks a rule of the language."""

    def function(arrays: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> None:
        from mslang.backend.reference.interpret import run

        for name, result in run(executable.program, arrays, sizes=sizes, bits=True).items():
            arrays[name][...] = result

    return FunctionKernel(executable.signature, function)


def version() -> str:
    """The interpreter's version."""
    return f"reference {__version__}"


REFERENCE = BackEnd("reference", (), interpreted, callable_program, version, passes=None, checks=True)
"""The interpreter."""
