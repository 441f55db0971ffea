"""The compiler of CUDA C that this machine has: NVRTC if there is one, else nvcc."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from mslang.backend.cuda import toolkit
from mslang.backend.cuda.compiled import Compiler
from mslang.backend.cuda.nvcc import Nvcc
from mslang.backend.cuda.nvrtc import Nvrtc
from mslang.diagnostics import TargetError, problem


@lru_cache(maxsize=1)
def installed_compiler() -> Compiler | None:
    """The compiler of this machine, if there is one."""
    for path in toolkit.libraries("libnvrtc.so"):
        try:
            # NVRTC looks for its built-in functions among the libraries that are loaded, not in its own folder.
            for built_in in path.parent.glob("libnvrtc-builtins.so*"):
                ctypes.CDLL(str(built_in))
            return Nvrtc(ctypes.CDLL(str(path)), toolkit.headers())
        except OSError:
            # A library of another system, or without what it depends on: the next one, or nvcc.
            continue
    found = toolkit.program("nvcc")
    return None if found is None else Nvcc(found)


def compiler() -> Compiler:
    """The compiler of this machine.

    Raises:
        TargetError: MS444, neither NVRTC nor nvcc is installed.
    """
    found = installed_compiler()
    if found is not None:
        return found
    raise TargetError(
        problem(
            "MS444",
            "no compiler of CUDA C is installed",
            why="neither the library NVRTC nor the program nvcc was found",
            help="`pip install '.[nvrtc]'`, or install the CUDA toolkit; `--stage cuda` needs neither",
        )
    )
