"""Descriptions of the machines that programs are compiled for."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

KIB = 1024
MIB = 1024 * KIB


class Target(msgspec.Struct, frozen=True, cache_hash=True):
    """A machine. `features` and `cpu` are LLVM's names; cache sizes are bytes (l1 and l2 of one core).

    `nan_free` promises that `min` and `max` of floats see no NaN and that the sign of a zero they give does not
    matter, so that each is one instruction. `extra` holds fields that a target in a program adds.
    """

    name: str = "generic"
    kind: str = "cpu"
    triple: str = ""
    cpu: str = ""
    features: tuple[str, ...] = ()
    vector_bits: int = 128
    registers: int = 16
    cores: int = 1
    l1: int = 32 * KIB
    l2: int = 256 * KIB
    l3: int = 4 * MIB
    nan_free: bool = False
    extra: tuple[tuple[str, int | float | str | bool], ...] = ()

    @property
    def vector_lanes(self) -> int:
        """How many f32 a vector register holds."""
        return self.vector_bits // 32

    def has(self, feature: str) -> bool:
        """Whether the machine has a feature, by LLVM's name (`"avx512f"`)."""
        return feature in self.features

    @property
    def has_threads(self) -> bool:
        """Whether it launches grids of threads within limits: it has the field `max_threads`.

        Limits, summaries and estimates depend on this. The kind decides only which back end serves the target, so a
        target of another kind, or with a back end of a user's own, has the same limits.
        """
        return "max_threads" in self.fields

    @property
    def fields(self) -> Mapping[str, int | float | str | bool]:
        """What `machine.<field>` can say."""
        own: dict[str, int | float | str | bool] = {
            "name": self.name,
            "kind": self.kind,
            "triple": self.triple,
            "cpu": self.cpu,
            "vector_lanes": self.vector_lanes,
            "vector_bits": self.vector_bits,
            "registers": self.registers,
            "cores": self.cores,
            "l1": self.l1,
            "l2": self.l2,
            "l3": self.l3,
            "nan_free": self.nan_free,
        }
        return own | dict(self.extra)


GENERIC = Target()
AVX2 = Target("avx2", cpu="haswell", features=("avx", "avx2", "f16c", "fma", "sse4.1"), vector_bits=256)
AVX512 = Target(
    "avx512",
    cpu="skylake-avx512",
    features=("avx", "avx2", "avx512bw", "avx512dq", "avx512f", "avx512vl", "f16c", "fma", "sse4.1"),
    vector_bits=512,
    registers=32,
    l2=MIB,
)
CUDA = Target("cuda", "cuda", vector_bits=128, registers=255, cores=1)


def gpu(name: str, arch: str, sms: int, shared: int, shared_sm: int, l2: int, bandwidth: float, clock: float) -> Target:
    """A GPU of NVIDIA.

    Args:
        name: the target's.
        arch: the architecture, as compilers name it.
        sms: multiprocessors.
        shared, shared_sm: bytes of shared memory that a block and a multiprocessor have at most.
        l2: bytes of the L2 cache.
        bandwidth: bytes a second to and from its memory.
        clock: cycles a second at most (the boost clock).
    """
    extra: tuple[tuple[str, int | float | str | bool], ...] = (
        ("arch", arch),
        ("sms", sms),
        ("warp", 32),
        ("max_threads", 1024),
        ("max_threads_sm", 2048),
        ("max_vthreads", 8),
        ("shared", shared),
        ("shared_sm", shared_sm),
        ("registers_sm", 65536),
        ("bandwidth", bandwidth),
        ("clock", clock),
    )
    return Target(name, "cuda", vector_bits=128, registers=255, cores=sms, l2=l2, extra=extra)


SM_80 = gpu("sm_80", "sm_80", 108, 163 * KIB, 164 * KIB, 40 * MIB, 1.555e12, 1.41e9)
SM_90 = gpu("sm_90", "sm_90a", 132, 227 * KIB, 228 * KIB, 50 * MIB, 3.35e12, 1.98e9)

TARGETS: Mapping[str, Target] = {t.name: t for t in (GENERIC, AVX2, AVX512, CUDA, SM_80, SM_90)}
"""Targets known by name; `mslang.target.detect.host` describes the machine it runs on."""
