"""C identifiers for the names of a kernel."""

from __future__ import annotations

import re

from mslang.backend.cuda.prelude import PREFIX
from mslang.runtime.c_library import C_LIBRARY, WORDS

_CUDA = """
    half nvcuda blockIdx threadIdx blockDim gridDim warpSize min max umin umax llmin llmax ullmin ullmax mul24 umul24
    saturate clock64 cospi sinpi sincospi cyl_bessel_i0 cyl_bessel_i1 erfcinv erfcx erfinv fdivide norm norm3d norm4d
    atomicAdd atomicMin atomicMax atomicCAS
    normcdf normcdfinv rcbrt rhypot rnorm rnorm3d rnorm4d rsqrt signbit isfinite isinf isnan
"""

_FUNCTIONS = _CUDA.split()
_RESERVED = frozenset((*WORDS, *_FUNCTIONS, *(f"{name}f" for name in _FUNCTIONS))) | C_LIBRARY

_OTHER = re.compile(r"\W", re.ASCII)


class Names:
    """Makes identifiers that differ from one another and from all that CUDA C and the prelude define."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def fresh(self, name: str) -> str:
        """An identifier like `name` that was not given before.

        >>> names = Names()
        >>> names.fresh("A.local"), names.fresh("A_local"), names.fresh("for")
        ('A_local', 'A_local_1', 'for_1')
        """
        plain = _OTHER.sub("_", name)
        if not plain or plain[0].isdigit() or plain.startswith(("_", PREFIX)):
            # Names that begin with an underscore belong to the compiler and CUDA's headers.
            plain = f"v{plain}"
        found, k = plain, 0
        while found in self._taken or found in _RESERVED:
            k += 1
            found = f"{plain}_{k}"
        self._taken.add(found)
        return found
