"""What LLVM calls the system and the processor family of a target."""

from __future__ import annotations

from mslang.target.description import Target


def triple_of(target: Target) -> str:
    """LLVM's triple for a target: its own, or that of this machine."""
    if target.triple:
        return target.triple
    import llvmlite.binding as llvm

    return str(llvm.get_default_triple())


def is_x86(target: Target) -> bool:
    """Whether the processor is an x86."""
    return triple_of(target).startswith(("x86_64", "i386", "i486", "i586", "i686"))
