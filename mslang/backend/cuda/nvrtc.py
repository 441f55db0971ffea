"""Compiling CUDA C by NVRTC, a library: several times as fast as nvcc, and needs neither driver nor toolkit.

Source: NVRTC documentation, "User Interface".
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mslang.backend.cuda.compiled import Compiled, refused
from mslang.diagnostics import MsError, problem

_COMPILATION = 6
"""NVRTC_ERROR_COMPILATION: the source is at fault, and the log says why."""


class Nvrtc:
    """NVRTC, loaded.

    Args:
        library: the functions of the library, as `ctypes.CDLL` gives them.
        headers: the folders of CUDA's headers.
    """

    def __init__(self, library: Any, headers: Sequence[Path] = ()) -> None:
        self._library = library
        self._headers = tuple(headers)

    def __call__(self, source: str, arch: str, form: str) -> Compiled:
        """The source as `form`, "cubin" or "ptx", for an architecture (`"sm_80"`).

        Raises:
            MsError: MS443, NVRTC refuses the source.
        """
        # PTX is made for the virtual architecture of the same number.
        wanted = arch if form == "cubin" else arch.replace("sm_", "compute_")
        options = [f"--gpu-architecture={wanted}", "--std=c++17", "--ptxas-options=-v", "-w"]
        options += [f"--include-path={p}" for p in self._headers]
        program = ctypes.c_void_p()
        self._check(
            self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
        )
        try:
            words = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
            status = self._library.nvrtcCompileProgram(program, len(options), words)
            log = self._read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if status == _COMPILATION:
                raise refused("NVRTC", source, log)
            self._check(status)
            return Compiled(self._read(program, "CUBIN" if form == "cubin" else "PTX"), log)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def version(self) -> str:
        """`nvrtc 13.0`."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return f"nvrtc {major.value}.{minor.value}"

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        text = ctypes.create_string_buffer(max(size.value, 1))
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, text))
        return text.raw[: size.value]

    def _check(self, status: int) -> None:
        if status:
            self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
            why = self._library.nvrtcGetErrorString(status)
            text = why.decode(errors="replace") if isinstance(why, bytes) else f"status {status}"
            raise MsError(problem("MS443", "NVRTC failed", why=text))
