"""Compiling CUDA C by nvcc, a program of the toolkit."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from mslang.backend.cuda.compiled import Compiled, refused


class Nvcc:
    """nvcc at a path. It takes a second or more for each source."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, source: str, arch: str, form: str) -> Compiled:
        """The source as `form`, "cubin" or "ptx", for an architecture (`"sm_80"`).

        Raises:
            MsError: MS443, nvcc refuses the source.
        """
        with tempfile.TemporaryDirectory() as folder:
            file, out = Path(folder, "kernel.cu"), Path(folder, f"kernel.{form}")
            file.write_text(source)
            options = ("-std=c++17", f"-arch={arch}", "-Xptxas", "-v", "-w")
            command = [self._path, f"-{form}", *options, "-o", str(out), str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            log = (done.stdout + done.stderr).replace(f"{folder}/", "")
            if done.returncode:
                raise refused("nvcc", source, log)
            return Compiled(out.read_bytes(), log)

    def version(self) -> str:
        """`nvcc 13.0`."""
        done = subprocess.run([self._path, "--version"], capture_output=True, text=True, check=False)
        release = next((line for line in done.stdout.splitlines() if "release " in line), "release unknown")
        return "nvcc " + release.partition("release ")[2].split(",")[0]
