"""The machine that this process runs on."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from mslang.target.description import GENERIC, KIB, MIB, Target
from mslang.target.features import vector_bits, vector_registers
from mslang.target.processors import model_of

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@lru_cache(maxsize=1)
def host() -> Target:
    """The host as a target: features as LLVM detects them, the processor by these, caches and cores as the system
    reports."""
    import llvmlite.binding as llvm

    features = tuple(sorted(name for name, on in llvm.get_host_cpu_features().items() if on))
    caches = cache_sizes()
    return Target(
        name="host",
        kind="cpu",
        triple=llvm.get_default_triple(),
        cpu=model_of(features, llvm.get_host_cpu_name()),
        features=features,
        vector_bits=vector_bits(features),
        registers=vector_registers(features),
        cores=cores(),
        l1=caches.get(1, GENERIC.l1),
        l2=caches.get(2, GENERIC.l2),
        l3=caches.get(3, GENERIC.l3),
    )


def cores() -> int:
    """How many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cache_sizes(root: Path = _CACHES) -> dict[int, int]:
    """Bytes of the data caches by level, as far as the system reports them."""
    sizes: dict[int, int] = {}
    for entry in sorted(root.glob("index*")):
        try:
            kind = (entry / "type").read_text().strip()
            level = int((entry / "level").read_text())
            size = _bytes((entry / "size").read_text().strip())
        except (OSError, ValueError):
            continue
        if kind != "Instruction":
            sizes[level] = size
    return sizes


def _bytes(text: str) -> int:
    units = {"K": KIB, "M": MIB, "G": MIB * KIB}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)
