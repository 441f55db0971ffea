"""Where the parts of a CUDA toolkit are: on the path, in the usual folder, or in NVIDIA's Python packages."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

_FOLDERS = (Path("/usr/local/cuda"), Path("/opt/cuda"))


def program(name: str) -> str | None:
    """The path of a program of the toolkit (`nvcc`, `cuobjdump`); None if it is not installed."""
    found = shutil.which(name)
    if found is not None:
        return found
    return next((str(p) for f in _FOLDERS if (p := f / "bin" / name).is_file()), None)


def libraries(stem: str) -> Iterator[Path]:
    """The shared libraries whose names begin with `stem` (`libnvrtc.so`), newest first in each place."""
    for folder in (*_packages("lib"), *(f / "lib64" for f in _FOLDERS)):
        yield from sorted((p for p in folder.glob(f"{stem}*") if "builtins" not in p.name), reverse=True)


def headers() -> tuple[Path, ...]:
    """The folders of CUDA's headers (`cuda_fp16.h`, `mma.h`)."""
    places = (*_packages("include"), *(f / "include" for f in _FOLDERS), *_beside_nvcc())
    return tuple(dict.fromkeys(p for p in places if (p / "cuda_fp16.h").is_file()))


def _packages(part: str) -> Iterator[Path]:
    """The folders `part` of the packages that NVIDIA publishes (`nvidia/cu13`, `nvidia/cuda_nvrtc`)."""
    for place in sys.path:
        folder = Path(place or ".") / "nvidia"
        if folder.is_dir():
            yield from sorted(folder.glob(f"*/{part}"), reverse=True)


def _beside_nvcc() -> Iterator[Path]:
    found = shutil.which("nvcc")
    if found is not None:
        yield Path(found).resolve().parent.parent / "include"
