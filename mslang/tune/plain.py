"""Running a program as it stands: with every access checked first, unless all are provably inside of their buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mslang.backend.backend import Options
from mslang.backend.registry import back_end, serving
from mslang.ir.access_bounds import provably_inside
from mslang.ir.program import Program
from mslang.runtime.arguments import NO_SIZES
from mslang.target.description import Target
from mslang.tune.verification import make_arguments

if TYPE_CHECKING:
    import numpy as np

    from mslang.backend.backend import Loaded

    Arrays = dict[str, np.ndarray]


def checked_build(program: Program, target: Target) -> Loaded | None:
    """A build of a program that checks every access; None if none can be out of bounds, whatever the data are."""
    if provably_inside(program):
        return None
    served = serving(target)
    checking = served if served.checks else back_end("reference")
    return checking.loaded(program, target, Options(checked=True))


def require_in_bounds(
    program: Program, inputs: Mapping[str, np.ndarray], checking: Loaded | None, sizes: Mapping[str, int] = NO_SIZES
) -> None:
    """Run a checked build on copies of the inputs; `sizes` are those that its calls give by name.

    Raises:
        MsError: MS415, an access is out of bounds: the buffer, the index and the axes are named.
    """
    if checking is not None:
        copies = {name: x.copy() for name, x in inputs.items()}
        checking.bind(**make_arguments(program, copies), **sizes).run()
