"""What LLVM calls the system and the processor family of a target."""

from __future__ import annotations

from mslang.target.description import Target

X86_64 = "x86_64"


def triple_of(target: Target) -> str:
    """LLVM's triple for a target: its own, or that of this machine."""
    if target.triple:
        return target.triple
    import llvmlite.binding as llvm

    return str(llvm.get_default_triple())


def processor_of(triple: str) -> str:
    """The processor family that a triple names: of its two names for `x86_64` one, of all for 32-bit x86 `x86`.

    >>> [processor_of(t) for t in ("amd64-unknown-freebsd", "i686-linux-gnu", "aarch64-linux-gnu")]
    ['x86_64', 'x86', 'aarch64']
    """
    name = triple.partition("-")[0]
    if name == "amd64":
        return X86_64
    return "x86" if name[:1] == "i" and name.endswith("86") else name
