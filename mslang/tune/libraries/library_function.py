"""The calls of NumPy or torch that compute a program: one function for all of it, or an operation for each block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mslang.ir.program import Program
from mslang.tune.libraries.array_calls import prepared_operations
from mslang.tune.libraries.array_operations import Operations, operations_of
from mslang.tune.libraries.convolution import Convolution, convolution_of
from mslang.tune.libraries.fused_function import FusedFunction, fused_function_of


class LibraryFunction(msgspec.Struct, frozen=True):
    """The calls of a library that compute a program, and the parameters that they write."""

    library: str
    computes: Operations | FusedFunction | Convolution
    written: tuple[str, ...]

    @property
    def allocates(self) -> bool:
        """Whether it returns an array of its own."""
        return not isinstance(self.computes, Operations) and self.computes.allocates

    @property
    def label(self) -> str:
        """How it is shown: the library alone for one operation, else with what is called."""
        match self.computes:
            case Operations(stages=(_,)):
                return self.library
            case Operations(stages=stages):
                return f"{self.library} ({len(stages)} operations)"
            case fused:
                return f"{self.library} ({fused.label})"


def library_function(library: str, program: Program) -> LibraryFunction:
    """The calls of a library that compute a program: of torch a fused function, if there is one for the whole program.

    Args:
        library: `"numpy"` or `"torch"`, which need not be installed.
        program: what is computed, as it is without a schedule.

    Raises:
        NotOnArrays: it has no counterpart in operations on whole arrays.

    >>> library_function("torch", softmax).label
    'torch (softmax)'
    """
    written = tuple(p.buffer.name for p in program.params if p.direction != "in")
    convolution = convolution_of(program) if library == "torch" else None
    if convolution is not None:
        return LibraryFunction(library, convolution, written)
    operations = operations_of(program)
    fused = fused_function_of(operations) if library == "torch" else None
    return LibraryFunction(library, operations if fused is None else fused, written)


def prepared_call(made: LibraryFunction) -> Callable[..., Callable[[], Any]]:
    """What takes the arrays by name and gives a function that writes the outputs, or returns the only one as an array
    of its own."""
    match made.computes:
        case Operations() as operations:
            return prepared_operations(made.library, operations)
        case fused:
            return _prepared_fused(fused)


def _prepared_fused(fused: FusedFunction | Convolution) -> Callable[..., Callable[[], Any]]:
    import torch

    def prepared(**arrays: Any) -> Callable[[], Any]:
        tensors = {name: torch.from_numpy(x) for name, x in arrays.items()}
        return lambda: fused(**tensors)

    return prepared
