"""Words that stand for themselves in schedules."""

from __future__ import annotations

from mslang.ir.dtype import SCALARS

TAILS = ("guard", "pad", "peel", "shift")
"""How `split` runs a remainder."""
COPIES = ("cp_async",)
"""Ways to move elements that `pipeline` may be given."""
ACCESSES = ("read", "write")
"""How a block accesses a buffer."""
ELEMENT_TYPES = SCALARS
