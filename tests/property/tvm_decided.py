"""What the two decide differently on purpose: classes of steps by what the side that refuses says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class Decision(msgspec.Struct, frozen=True):
    """A class: who takes these steps, of which primitives (none: any), what the other says, and why it stays so."""

    taker: str
    ops: tuple[str, ...]
    refusal: str
    why: str

    def covers(self, op: str, taker: str, reason: str) -> bool:
        """Is a disagreement of this class?"""
        return taker == self.taker and (not self.ops or op in self.ops) and re.search(self.refusal, reason) is not None


FAILS = "TVM fails"
"""The class of steps to which TVM gives no answer."""

DECIDED: Mapping[str, Decision] = MappingProxyType(
    {
        FAILS: Decision(
            "ours",
            (),
            r"TVM crashed|undefined variable|\) is false|A SeqStmt of length|cannot be indexed with|"
            r"shape\.size\(\) == indices\.size\(\)|^Index \S+ out of bounds|key is not in Map|An empty SeqStmt|"
            r"block_realize == old_block_realize_|regions\.size\(\)\)|^Could not get the corresponding function",
            "TVM ends in a crash or in a failed check inside of it, not in a refusal",
        ),
        "kinds of blocks": Decision(
            "ours",
            (),
            r"compact dataflow|not a (complete|reduction) block|not a stage pipeline|not a local",
            "TVM asks for blocks of certain kinds; here the dependences themselves are judged",
        ),
        "other reducers": Decision(
            "ours",
            ("rfactor",),
            r"No matched reducer",
            "TVM knows `max` from the least finite number on; here from an infinity on too",
        ),
        "other blocks of tiles": Decision(
            "ours",
            ("blockize",),
            r"can not be blockized|No reduction iter vars allowed|CanProveEqual",
            "TVM wants the bindings as products of loops; here it is enough that the ranges are proved",
        ),
        "several regions": Decision(
            "ours",
            ("reverse_compute_inline",),
            r"only allowed to read a single buffer region",
            "a consumer may read more than what is inlined into it, if that can be read where the producer is",
        ),
        "consumers with predicates": Decision(
            "ours",
            ("reverse_compute_inline",),
            r"body of the inlined block should be",
            "TVM takes the bounds of axes for them only as it writes them; here whatever says that axes stay in theirs",
        ),
        "epilogues of other forms": Decision(
            "ours",
            ("fuse_reduction_epilogue",),
            r"body of the inlined block should be",
            "TVM takes a sum with another operand and a clipping; here whatever can be done to each partial result",
        ),
        "results that others read": Decision(
            "TVM",
            ("reverse_compute_inline", "fuse_reduction_epilogue"),
            r"MS341",
            "TVM drops a buffer that another block still reads",
        ),
        "axes by their places": Decision(
            "ours",
            ("fuse_reduction_epilogue",),
            r"number of data parallel iter",
            "TVM takes the axes of both blocks for each other by their places; here by the elements that they mean",
        ),
        "other windows": Decision(
            "ours",
            ("rolling_buffer",),
            r"should have at leas",
            "TVM knows windows by the form of the region; here that they overlap and go on is proved",
        ),
        "loops and axes in other orders": Decision(
            "ours",
            ("transform_block_layout",),
            r"binding values of the .* are not variables of outer loops|is not bijective affine",
            "TVM wants the loops in the order of the axes and maps of its own forms; the loops that are made do not "
            "depend on it, and maps are proved one to one",
        ),
        "loops around other blocks too": Decision(
            "ours",
            ("transform_block_layout",),
            r"required to have only one child",
            "TVM takes all loops around the block for its own; here those of its axes, which must hold nothing else",
        ),
        "other paddings": Decision(
            "ours",
            ("decompose_padding",),
            r"match padding pattern",
            "TVM wants a condition on each axis as it is written; here it is enough that each bounds one axis",
        ),
        "paddings without anything to fill": Decision(
            "TVM",
            ("decompose_padding",),
            r"MS374 the condition of block .* is always true",
            "TVM fills what is overwritten at once, if it does not see that the condition is always true",
        ),
        "axes that loops do not divide": Decision(
            "TVM",
            ("blockize",),
            r"MS376|MS377",
            "the blocks inside would not be all of what the new block says that it writes; TVM believes the division, "
            "or the predicate",
        ),
        "paddings of other forms": Decision(
            "TVM",
            ("decompose_padding",),
            r"MS374 a condition of",
            "conditions on several axes at once, as a layout makes them; TVM fills all of the buffer first",
        ),
        "scopes that are not stage pipelines": Decision(
            "TVM",
            ("read_at", "write_at", "reindex", "reindex_cache_read", "reindex_cache_write", "rfactor"),
            r"MS362|MS368 block `_` stands where",
            "TVM goes by the regions that blocks declare; that all that is read of the buffer was written, and is not "
            "written later, is proved here, or it is refused",
        ),
        "reductions done again": Decision(
            "TVM",
            ("decompose_reduction",),
            r"MS314",
            "the init would run once, before a loop that does the whole reduction several times",
        ),
        "reductions of other shapes": Decision(
            "TVM",
            ("fuse_reduction_epilogue",),
            r"MS313|MS353|MS369",
            "TVM pairs the blocks by the places of their axes, whatever else the reduction holds or the epilogue reads",
        ),
        "copies before what they copy": Decision(
            "TVM",
            ("cache_read",),
            r"MS344",
            "TVM copies for all consumers at once, for one that reads before the buffer is written, too",
        ),
        "nothing to keep": Decision(
            "TVM",
            ("cache_index",),
            r"MS363",
            "TVM takes formulas of a nest together; where none occurs often enough in the block nothing is done here",
        ),
        "nests of one axis each": Decision(
            "TVM",
            ("transform_block_layout",),
            r"MS389",
            "the new loops stand for the axes, each whole; TVM takes loops over a part of one for all of it",
        ),
        "paddings that would count": Decision(
            "TVM",
            ("pad_einsum",),
            r"MS348|MS373|MS372 (block `_` is not a product|the spatial axis)",
            "TVM fills with 0 whatever is combined and however it is indexed, and pads axes over which a predicate "
            "runs; the iterations that are added must not count",
        ),
        "instances that there were not": Decision(
            "TVM",
            ("transform_block_layout",),
            r"MS384",
            "the new axes have values that no old ones give; TVM lets the block run for them, too",
        ),
        "fillings inside of lanes and threads": Decision(
            "TVM",
            ("transform_layout", "pad_einsum", "write_at"),
            r"MS310|MS388",
            "TVM fills, or copies, in each lane or thread, which would write the same elements at once",
        ),
        "nests that others see": Decision(
            "TVM",
            ("pad_einsum",),
            r"MS372 block .* (is in one nest|stands inside)",
            "TVM copies around the whole nest, whatever else writes there or reads what is not there yet",
        ),
        "nests that build on each other": Decision(
            "TVM",
            ("merge",),
            r"MS357",
            "TVM does not look at dependences; here a later iteration of an earlier nest must not be built on",
        ),
        "covered by a proof": Decision(
            "ours",
            ("cache_read", "cache_write", "cache_inplace", "reindex_cache_read", "reindex_cache_write"),
            r"region cover is not complete|is not a single point|written by single block",
            "TVM goes by the regions that blocks declare and takes one writer; here by what is surely stored and read",
        ),
        "predicates that are left out": Decision(
            "TVM",
            ("split",),
            r"MS306",
            "TVM believes `disable_predication`; here it needs a proof that no iteration is too many",
        ),
        "loops that are vectorized, parallel, unrolled or bound": Decision(
            "TVM",
            ("split", "fuse", "merge", "loop_partition", "reorder", "rfactor"),
            r"MS305",
            "TVM drops or copies the kind silently; here it is said first, and kept",
        ),
        "iterations that access the same elements": Decision(
            "TVM",
            ("parallel", "vectorize", "bind"),
            r"MS309|MS310",
            "TVM asks how the blocks bind the loop, not what they access: iterations may write one element at once (a "
            "block moved under a loop that it does not use), or a copy that all share; here that needs a proof",
        ),
        "copies in lanes": Decision(
            "TVM",
            ("read_at", "write_at", "reindex_cache_read", "reindex_cache_write"),
            r"MS346 (loop `_` is vectorized|iterations of the)",
            "a vectorized loop holds one block, in lanes, and threads share what is copied; TVM puts a copy there",
        ),
        "orders of several blocks": Decision(
            "TVM",
            ("reorder",),
            r"MS308",
            "TVM does not ask what blocks under the same loops read of each other; here that needs a proof",
        ),
        "blocks with opaque axes": Decision(
            "ours",
            ("reorder",),
            r"block iter type other than",
            "TVM wants spatial and reduction axes; here the dependences themselves are judged",
        ),
        "vectors in vectors": Decision(
            "TVM",
            ("vectorize", "parallel", "bind"),
            r"MS311",
            "TVM runs the inner of two vectorized loops serially, with a warning, and makes no code of parallel loops "
            "in parallel ones, or of blocks inside of threads; here it is said at once",
        ),
        "one loop fused": Decision(
            "ours",
            ("fuse",),
            r"has annotation or thread binding",
            "fusing one loop alone changes nothing, whatever is said of the loop; of several ours refuses it too",
        ),
        "loops that do not start at 0": Decision(
            "ours",
            ("split", "fuse"),
            r"does not start with",
            "TVM takes loops apart and together only where they start at 0",
        ),
        "sums without `let`": Decision(
            "ours",
            ("rfactor",),
            r"RFactor cannot be applied to block .* violates condition",
            "TVM asks that several buffers are updated by values of `let`s; here that none reads what another wrote",
        ),
        "conditions on several axes": Decision(
            "ours",
            ("reorder",),
            r"affine binding",
            "TVM wants the predicate to be bounds of single sums of loops; another order leaves what it says as it is",
        ),
        "what nobody wrote": Decision(
            "TVM",
            (),
            r"MS332",
            "TVM does not ask whether all that is read is written; here that needs a proof, which may be missing",
        ),
        "blocks that read and write a buffer": Decision(
            "TVM",
            ("cache_read", "cache_write", "reindex", "reindex_cache_read", "reindex_cache_write"),
            r"MS333",
            "a copy of one side only would tear the update apart",
        ),
        "consumers that do not read": Decision(
            "TVM",
            ("cache_read", "cache_write"),
            r"MS330",
            "TVM leaves a consumer that does not read the buffer alone; here it is taken for a mistake",
        ),
        "reductions that are not done": Decision(
            "TVM",
            ("write_at", "cache_write", "cache_inplace"),
            r"MS346 loop `[^`]*` still reduces",
            "the copy back would stand inside of a loop that still reduces: one instance of it would store one value, "
            "then another",
        ),
        "epilogues that change the result": Decision(
            "TVM",
            ("fuse_reduction_epilogue",),
            r"MS371",
            "TVM applies the epilogue to partial results, from 0 on, whatever is reduced; here only where it is right",
        ),
        "inlined where not all runs": Decision(
            "TVM", ("reverse_compute_inline",), r"MS348", "what the consumer would write is not all computed there"
        ),
        "producers that do more": Decision(
            "TVM",
            ("reverse_compute_inline",),
            r"MS351",
            "TVM goes into blocks that hold several others; here only into those that hold one store",
        ),
        "rolling under loops that run at once": Decision(
            "TVM",
            ("rolling_buffer",),
            r"MS346",
            "elements are handed on from one iteration to the next; loops inside of these may be bound afterwards",
        ),
        "reductions of other types": Decision(
            "TVM",
            ("fuse_reduction_epilogue",),
            r"MS370",
            "a buffer of another type than is summed holds what is converted at each step, which is not a sum any more",
        ),
        "partial results": Decision(
            "TVM",
            ("compute_at", "reverse_compute_at"),
            r"MS346",
            "what is read there is not final: a loop around still reduces; and lanes hold a single block",
        ),
        "consumers before the loop": Decision(
            "TVM",
            ("reverse_compute_at",),
            r"MS344 .*would write after it",
            "TVM asks about consumers under the loop only; others would read what is not written yet",
        ),
        "moved where not all runs, or at once": Decision(
            "TVM",
            ("compute_at", "reverse_compute_at"),
            r"MS348|MS349|MS310",
            "TVM moves a block without asking which of its instances run there, and how often at the same time",
        ),
        "producers that ran before": Decision(
            "ours",
            ("reverse_compute_at",),
            r"requires all the producer",
            "what is read may have been written before the loop; it is enough that no producer comes after it",
        ),
        "regions beyond those of the block around": Decision(
            "TVM",
            ("annotate_buffer_access",),
            r"MS365",
            "TVM lets a block declare more than the block that holds it; others are told what that one declares",
        ),
        "elements that are not determined by the axes": Decision(
            "TVM",
            ("reindex", "reindex_cache_read", "reindex_cache_write"),
            r"MS347|MS360",
            "TVM takes the block's declared region for the one element that it accesses, whatever it does, whether its "
            "predicate says which, and whoever else accesses the buffer under its loops",
        ),
        "windows that do not overlap": Decision(
            "TVM",
            ("rolling_buffer",),
            r"MS364",
            "TVM goes by the declared region, larger than what is computed; nothing is left for the next iteration",
        ),
        "what cannot be inverted": Decision(
            "TVM",
            ("reverse_compute_inline",),
            r"MS353",
            "the indices give no element of the producer for each of the consumer",
        ),
        "reductions under axes of a block around": Decision(
            "TVM",
            ("rfactor",),
            r"MS368 the reduction axis",
            "the reduction is not over where the block around ends; TVM would combine partial results too early",
        ),
        "epilogues that read what comes later": Decision(
            "TVM",
            ("fuse_reduction_epilogue",),
            r"MS344",
            "TVM computes the epilogue at the reduction, where what else it reads is not written yet",
        ),
        "updates of declared parts": Decision(
            "TVM",
            ("decompose_reduction", "rfactor"),
            r"MS313",
            "a block of a partitioned nest declares the part of the buffer that all its instances write; here a "
            "reduction declares the one element that an instance updates",
        ),
        "inits under threads that reduce": Decision(
            "TVM",
            ("decompose_reduction", "blockize"),
            r"MS310|MS378",
            "the loop that reduces runs in threads: without an init in the block they are not known to combine what "
            "they compute, and write the same element at once",
        ),
        "nested loops of one thread axis": Decision(
            "TVM",
            ("bind",),
            r"MS395",
            "loops of one axis of threads belong to one launch and have one extent; TVM binds a second of another",
        ),
        "axes of one value": Decision(
            "TVM",
            ("reindex_cache_read", "reindex_cache_write"),
            r"MS361",
            "an axis of extent 1 in the indices must be in the map as well; TVM leaves it out",
        ),
        "paddings of blocks that hold others": Decision(
            "TVM",
            ("pad_einsum",),
            r"MS345",
            "TVM pads axes of a block around others, which are opaque, whatever those do with them",
        ),
        "hidden accesses": Decision(
            "TVM", (), r"MS379|MS352 block `_` hides", "what a block hides it may still access; nothing moves over it"
        ),
    }
)
"""The classes by name."""


def decided(op: str, taker: str, reason: str) -> str | None:
    """The class of a disagreement, if it is decided."""
    return next((name for name, each in DECIDED.items() if each.covers(op, taker, reason)), None)
