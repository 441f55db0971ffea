"""Pairs of the short campaign that go wrong and are not mended yet, by what is wrong. Each goes when it is mended."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """A fault by name: what is wrong, and the pairs of the short campaign that show it."""

    name: str
    what: str
    pairs: tuple[tuple[str, int], ...]


OPEN: tuple[Finding, ...] = (
    Finding(
        "specialize_on_loop_text",
        "the trace of `specialize` with a condition on an enclosing loop does not read back",
        tuple(("instances", k) for k in (0, 273, 280, 290)),
    ),
    Finding(
        "init_or_write_not_certain",
        "copies of what a block writes take a predicate without axes, or an init that runs last, for certain",
        tuple(("instances", k) for k in (80, 153, 243, 292)),
    ),
    Finding(
        "copy_of_running_value",
        "the copy of a buffer that an outer loop changes is a spatial block which runs again with other values",
        tuple(("instances", k) for k in (123, 231, 291)),
    ),
    Finding(
        "bf16_link",
        "a kernel over bf16 needs a function that the linker does not find",
        (("instances", 199),),
    ),
)
