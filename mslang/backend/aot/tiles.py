"""Permission to use matrix tiles (AMX), asked by the compiled code itself; `mslang.runtime.tiles` does so in Python."""

from __future__ import annotations

from mslang.runtime.tiles import ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA

REQUEST = "mslang.request_tiles"
"""Whether tiles may be used, if its argument says that the processor has them: the system is asked only then."""


def tiles_ir(triple: str) -> str:
    """`@mslang.request_tiles(i1)` for a triple. Systems other than Linux on x86-64 are not known to give tiles.

    >>> "syscall" in tiles_ir("x86_64-unknown-linux-gnu"), "syscall" in tiles_ir("x86_64-pc-windows-msvc")
    (True, False)
    """
    return _LINUX if "linux" in triple else _NOWHERE


_LINUX = f"""define internal i1 @{REQUEST}(i1 %there) {{
  br i1 %there, label %ask, label %none
ask:
  %code = call i64 asm sideeffect "syscall",
    "={{ax}},{{ax}},{{di}},{{si}},~{{rcx}},~{{r11}},~{{memory}},~{{dirflag}},~{{fpsr}},~{{flags}}"(
      i64 {ARCH_PRCTL}, i64 {ARCH_REQ_XCOMP_PERM}, i64 {XFEATURE_XTILEDATA})
  %given = icmp eq i64 %code, 0
  ret i1 %given
none:
  ret i1 false
}}
"""
_NOWHERE = f"""define internal i1 @{REQUEST}(i1 %there) {{
  ret i1 false
}}
"""
