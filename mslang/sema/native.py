"""Names of the standard library whose meaning is written in Python: what they are called and what they do.

How they are called stands in `mslang.ops.library`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class Native(msgspec.Struct, frozen=True):
    """A function, rule or target of the library that is not written in `.ms`. `role` is "fn", "rule" or "target"."""

    module: str
    name: str
    role: str
    doc: str

    @property
    def address(self) -> str:
        """Its dotted name: `std.testing.equiv`."""
        return f"{self.module}.{self.name}" if self.module else self.name


BUILTINS: Mapping[str, Native] = MappingProxyType(
    {
        n.name: n
        for n in (
            Native(
                "",
                "sample",
                "fn",
                "One draw of a space or schedule for a program: redraws up to 64 times until every `require` holds. "
                "Further named arguments pin decisions.",
            ),
            Native("", "apply", "fn", "A rule applied to each block of the program; a test names the program."),
            Native("", "len", "fn", "The number of elements of a list."),
            Native("", "min", "fn", "The smallest of some sizes."),
            Native("", "max", "fn", "The largest of some sizes."),
            Native("", "at", "fn", "The location inside a loop, as `compute_location` draws it."),
            Native("", "enter_postproc", "fn", "The mark in a trace where postprocessing begins."),
        )
    }
)
"""Functions that need no `use`."""

_LIBRARY = (
    Native(
        "std.testing",
        "equiv",
        "fn",
        "Whether a scheduled program computes what the program does: both are run on inputs in which every "
        "reordering of sums is exact, and on dense random ones within the tolerance.",
    ),
    Native("std.testing", "implements", "fn", "Whether an intrinsic's implementation computes what its `desc` says."),
    Native("std.testing", "fits", "fn", "Whether a scheduled program keeps within the limits of a target."),
    Native("std.cpu", "host", "target", "The machine that mslang runs on: its processor, features, caches and cores."),
    Native(
        "std.cpu",
        "auto_parallel",
        "rule",
        "Fuses and runs in parallel the outermost loops, vectorises the innermost, unrolls within a limit.",
    ),
    Native("std.cpu", "auto", "rule", "All rules for this processor: the automatic space, as a part of another."),
    Native("std.cpu", "quick", "rule", "Rules that leave at most three decisions open."),
    Native("std.cuda", "space", "rule", "All rules for this GPU, and its postprocessors: the automatic space."),
    Native("std.rules", "inline_constants", "rule", "Puts scalars that are computed from nothing into their readers."),
    Native("std.rules", "auto_inline", "rule", "Puts elementwise blocks into the blocks that read them."),
    Native(
        "std.rules",
        "add_rfactor",
        "rule",
        "Takes reductions with little to run in parallel apart, into partial results for cores or lanes.",
    ),
    Native("std.rules", "compute_location", "rule", "Draws where each block that is not tiled is computed."),
    Native(
        "std.rules",
        "transpose",
        "rule",
        "Tiles blocks that read along one axis and write along another, and transposes the tiles in registers.",
    ),
    Native(
        "std.rules",
        "parallelize_vectorize_unroll",
        "rule",
        "Runs the outermost loops in parallel, vectorizes the innermost, unrolls within a limit that is drawn.",
    ),
    Native("std.rules", "stream", "rule", "Draws whether large results are stored past the caches."),
    Native(
        "std.rules", "custom", "rule", "Schedules each block by the rule that its annotation `schedule_rule` names."
    ),
    Native("std.rules", "rows", "rule", "Computes the stages that share rows in one parallel loop over the rows."),
    Native("std.rules", "matrix_tiles", "rule", "Computes products of bytes and of bf16 on matrix tiles (AMX)."),
    Native("std.rules", "dot", "rule", "Computes products of bytes and of bf16 with a dot-product instruction."),
    Native("std.rules", "tile", "rule", "Tiles products, with a tile of results in vector registers."),
    Native("std.rules", "default_tiling", "rule", "Tiles products as the default schedule does, with two sizes drawn."),
    Native(
        "std.rules",
        "loop_blocks",
        "rule",
        "Runs nests in blocks of rows and vectors, and elementwise producers in these blocks.",
    ),
    Native("std.rules", "reduction_loop_blocks", "rule", "Runs reductions in blocks of rows and vectors."),
    Native(
        "std.rules", "online_attention", "rule", "Computes attention in one kernel, in one pass over tiles of keys."
    ),
    Native(
        "std.rules",
        "multi_level_tiling_tensor_core",
        "rule",
        "Tiles products for thread blocks, warps and tensor cores, and stages operands in shared memory.",
    ),
    Native(
        "std.rules",
        "gpu_tiling",
        "rule",
        "Tiles blocks with reuse for thread blocks and threads, and stages operands in shared memory. With `intrin`, "
        "the name of an intrinsic, only blocks that are whole tiles of it, which it computes.",
    ),
    Native(
        "std.rules", "cross_thread_reduction", "rule", "Shares the reductions with little other work among threads."
    ),
    Native("std.rules", "auto_bind", "rule", "Binds the outer loops of unbound nests to thread blocks and threads."),
    Native("std.rules", "gpu_unroll", "rule", "Unrolls the loops of a thread around a reduction, within a limit."),
    Native("std.rules", "named", "rule", "A rule by its name: given from Python, of the file, or of a package."),
    Native(
        "std.cuda",
        "auto",
        "rule",
        "Schedules what is not bound to blocks and threads of a GPU, without search: by what each nest computes.",
    ),
    Native(
        "std.tensor",
        "tensorize_mapping",
        "fn",
        "Splits off, and brings inside, the loops of a block that an intrinsic can take, padding what does not divide; "
        "gives the outermost of them, to tensorize.",
    ),
    Native(
        "std.tiling",
        "multi_level",
        "rule",
        'Tiles each block with reuse by a structure such as "SSRSRS": S levels split the spatial loops, R the '
        "reduction loops. With `intrin`, the name of an intrinsic, only blocks that are whole tiles of it, which it "
        "computes.",
    ),
)

MODULES: Mapping[str, Mapping[str, Native]] = MappingProxyType(
    {
        module: MappingProxyType({n.name: n for n in _LIBRARY if n.module == module})
        for module in dict.fromkeys(n.module for n in _LIBRARY)
    }
)
"""The native names by module."""

TARGET_KINDS: Mapping[str, Native] = MappingProxyType(
    {
        "cpu": Native("", "cpu", "target", "A CPU, reached through LLVM."),
        "cuda": Native("", "cuda", "target", "An NVIDIA GPU."),
    }
)
"""What a target may be a kind of."""
