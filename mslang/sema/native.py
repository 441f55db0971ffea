"""Names of the standard library whose meaning is written in Python: their signatures and what they do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from mslang.ops.signature import Group, Kind, Param, Signature


class Native(msgspec.Struct, frozen=True):
    """A function or rule of the library that is not written in `.ms`. `role` is "fn", "rule" or "target"."""

    module: str
    name: str
    role: str
    doc: str
    signature: Signature | None = None

    @property
    def address(self) -> str:
        """Its dotted name: `std.testing.equiv`."""
        return f"{self.module}.{self.name}" if self.module else self.name


def _function(name: str, *params: Param, gives: Kind) -> Signature:
    return Signature(name, Group.FUNCTION, params, (gives,), family="library")


_TOLERANCES = (Param("rtol", Kind.FLOAT, 1e-5, keyword=True), Param("atol", Kind.FLOAT, 1e-6, keyword=True),
               Param("seed", Kind.INT, 0, keyword=True))

BUILTINS: Mapping[str, Native] = MappingProxyType({
    n.name: n for n in (
        Native("", "sample", "fn",
               "One draw of a space or schedule for a program: redraws up to 64 times until every `require` holds. "
               "Further named arguments pin decisions.",
               _function("sample", Param("space", Kind.SPACE), Param("program", Kind.PROGRAM),
                         Param("seed", Kind.INT, 0, keyword=True), gives=Kind.ANY)),
        Native("", "apply", "fn", "A rule applied to each block of the program; a test names the program.",
               _function("apply", Param("rule", Kind.RULE), Param("program", Kind.PROGRAM, None), gives=Kind.ANY)),
        Native("", "len", "fn", "The number of elements of a list.",
               _function("len", Param("list", Kind.VALUES), gives=Kind.INT)),
    )
})
"""Functions that need no `use`."""

_LIBRARY = (
    Native("std.testing", "equiv", "fn",
           "Whether a scheduled program computes what the program does: both are run on inputs in which every "
           "reordering of sums is exact, and on dense random ones within the tolerance.",
           _function("equiv", Param("program", Kind.PROGRAM), Param("scheduled", Kind.ANY), *_TOLERANCES,
                     gives=Kind.BOOL)),
    Native("std.testing", "implements", "fn",
           "Whether an intrinsic's implementation computes what its `desc` says.",
           _function("implements", Param("intrin", Kind.INTRIN), *_TOLERANCES, gives=Kind.BOOL)),
    Native("std.testing", "fits", "fn", "Whether a scheduled program keeps within the limits of a target.",
           _function("fits", Param("scheduled", Kind.ANY), Param("target", Kind.ANY), gives=Kind.BOOL)),
    Native("std.cpu", "host", "target", "The machine that mslang runs on: its processor, features, caches and cores."),
    Native("std.cpu", "auto_parallel", "rule",
           "Fuses and runs in parallel the outermost loops, vectorises the innermost, unrolls within a limit.",
           _function("auto_parallel", Param("block", Kind.BLOCK), gives=Kind.NOTHING)),
    Native("std.cuda", "cooperative_fetch", "fn",
           "All threads of a thread block share the copying that a block does, `vector` elements at a time.",
           _function("cooperative_fetch", Param("block", Kind.BLOCK), Param("vector", Kind.SIZE, 1, keyword=True),
                     gives=Kind.NOTHING)),
    Native("std.tiling", "multi_level", "rule",
           "Tiles each block with reuse by a structure such as \"SSRSRS\": S levels split the spatial loops, R the "
           "reduction loops.",
           _function("multi_level", Param("structure", Kind.STR), gives=Kind.RULE)),
)

MODULES: Mapping[str, Mapping[str, Native]] = MappingProxyType({
    module: MappingProxyType({n.name: n for n in _LIBRARY if n.module == module})
    for module in dict.fromkeys(n.module for n in _LIBRARY)
})
"""The native names by module."""

TARGET_KINDS: Mapping[str, Native] = MappingProxyType({
    "cpu": Native("", "cpu", "target", "A CPU, reached through LLVM."),
    "cuda": Native("", "cuda", "target", "An NVIDIA GPU."),
})
"""What a target may be a kind of."""
