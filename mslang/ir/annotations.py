"""Keys of annotations that primitives leave and lowering reads."""

from __future__ import annotations

ATOMIC = "atomic"
"""Of a block: its updates are atomic."""

PREFETCH = "prefetch."
"""Of a loop, before the name of a buffer: how many iterations ahead what is read of it is fetched."""

STREAM = "stream."
"""Of a block, before the name of a buffer: whether (0: not) what it stores there bypasses the caches."""

MAX_STEPS = "unroll.max_steps"
"""Of an unrolled loop: it is unrolled only while it makes no more than so many copies."""

JOINED = "vectorize.reduction"
"""Of a vectorized loop: its lanes combine parts of one reduction and are joined."""

STAGES = "pipeline.stages"
"""Of a pipelined loop: how many iterations are under way at once."""

COPY = "pipeline.copy"
"""Of a pipelined loop: how its copies are made; one of `mslang.ops.words.COPIES`."""
