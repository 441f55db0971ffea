"""Words that stand for themselves in schedules."""

from __future__ import annotations

from mslang.ir.dtype import SCALARS
from mslang.ir.program import LOOP_KINDS, SCOPES

TAILS = ("guard", "pad", "peel", "shift")
"""How `split` runs a remainder."""
COPIES = ("cp_async",)
"""Ways to move elements that `pipeline` may be given."""
ACCESSES = ("read", "write")
"""How a block accesses a buffer."""
ELEMENT_TYPES = SCALARS

WORDS = SCOPES | LOOP_KINDS | {*TAILS, *COPIES, *ACCESSES, *ELEMENT_TYPES}
"""Words that evaluate to themselves unless something else has their name."""
