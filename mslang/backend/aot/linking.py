"""Shared libraries, by the linker of the system."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mslang.diagnostics import TargetError, problem

DRIVERS = ("cc", "gcc", "clang")
"""Commands that link; the first that is there is taken."""

_SECONDS = 120


def shared_library(code: bytes, name: str, triple: str) -> bytes:
    """An object as a shared library.

    Args:
        code: the object.
        name: the library's name, for its `soname`.
        triple: the system that it is for.

    Raises:
        TargetError: MS453, there is no linker, or it fails: why is its message.
    """
    driver = next((found for d in DRIVERS if (found := shutil.which(d)) is not None), None)
    if driver is None:
        raise _refused("there is no linker", f"none of {', '.join(DRIVERS)} is on the path")
    with tempfile.TemporaryDirectory(prefix="mslang-") as folder:
        source, out = Path(folder) / f"{name}.o", Path(folder) / f"lib{name}.so"
        source.write_bytes(code)
        # Threads of the pool run code of the library: it is not to be unloaded.
        words = [driver, "-shared", "-o", out.name, source.name, "-lm"]
        words += ["-pthread", "-Wl,-z,nodelete", f"-Wl,-soname,lib{name}.so"] if "linux" in triple else []
        try:
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _refused(f"the linker {driver} does not run", str(error)) from error
        if done.returncode or not out.exists():
            reason = done.stderr.strip() or f"it ends with status {done.returncode}"
            raise _refused(f"the linker {driver} makes no library for {triple}", reason.replace(folder, "."))
        return out.read_bytes()


def _refused(message: str, why: str) -> TargetError:
    system = "install a C compiler" if sys.platform != "win32" else "install a C compiler and put it on the path"
    return TargetError(problem("MS453", message, why=why, help=f"{system}, or write a `.o`, which needs none"))
