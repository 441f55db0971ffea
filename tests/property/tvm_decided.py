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
            "TVM crashes, or fails an internal check, instead of refusing",
        ),
        "kinds of blocks": Decision(
            "ours",
            (),
            r"compact dataflow|not a (complete|reduction) block|not a stage pipeline|not a local",
            "TVM requires blocks of certain kinds; mslang checks the dependences themselves",
        ),
        "other reducers": Decision(
            "ours",
            ("rfactor",),
            r"No matched reducer",
            "TVM recognises `max` only with the least finite number as its identity; mslang recognises -inf, too",
        ),
        "other bindings of tiles": Decision(
            "ours",
            ("blockize",),
            r"can not be blockized|No reduction iter vars allowed|CanProveEqual",
            "TVM requires the bindings to be products of loops; mslang requires only a proof of the ranges",
        ),
        "several regions": Decision(
            "ours",
            ("reverse_compute_inline",),
            r"only allowed to read a single buffer region",
            "a consumer may read more than the inlined buffer, if the rest can be read at the producer",
        ),
        "consumers with predicates": Decision(
            "ours",
            ("reverse_compute_inline",),
            r"body of the inlined block should be",
            "TVM accepts bounds of axes only in the form that it writes itself; mslang accepts any predicate that "
            "bounds axes",
        ),
        "epilogues of other forms": Decision(
            "ours",
            ("fuse_reduction_epilogue",),
            r"body of the inlined block should be",
            "TVM accepts a sum with another operand, and clipping; mslang any epilogue that may be applied to partial"
            " results",
        ),
        "results with other readers": Decision(
            "TVM",
            ("reverse_compute_inline", "fuse_reduction_epilogue"),
            r"MS341",
            "TVM drops a buffer that another block still reads",
        ),
        "axes matched by position": Decision(
            "ours",
            ("fuse_reduction_epilogue",),
            r"number of data parallel iter",
            "TVM matches the axes of the two blocks by position; mslang matches them by the elements that they index",
        ),
        "other windows": Decision(
            "ours",
            ("rolling_buffer",),
            r"should have at leas",
            "TVM recognises windows by the form of the region; mslang proves that they overlap and advance",
        ),
        "loops and axes in other orders": Decision(
            "ours",
            ("transform_block_layout",),
            r"binding values of the .* are not variables of outer loops|is not bijective affine",
            "TVM requires the loops in the order of the axes, and maps of certain forms; the new loops do not depend "
            "on the order, and mslang proves maps one to one",
        ),
        "loops around other blocks, too": Decision(
            "ours",
            ("transform_block_layout",),
            r"required to have only one child",
            "TVM requires that no enclosing loop contains another block; mslang requires it only of the loops of the "
            "block's axes",
        ),
        "other padding conditions": Decision(
            "ours",
            ("decompose_padding",),
            r"match padding pattern",
            "TVM matches the form of the condition on each axis; mslang requires only that each condition bounds one "
            "axis",
        ),
        "padding with nothing to fill": Decision(
            "TVM",
            ("decompose_padding",),
            r"MS374 the condition of block .* is always true",
            "TVM fills elements that are overwritten at once, if it cannot prove that the condition is always true",
        ),
        "axes that loops do not divide": Decision(
            "TVM",
            ("blockize",),
            r"MS376|MS377",
            "the inner blocks would not write all that the new block declares; TVM trusts the division, or the "
            "predicate",
        ),
        "padding conditions on several axes": Decision(
            "TVM",
            ("decompose_padding",),
            r"MS374 a condition of",
            "conditions on several axes at once, such as layouts produce; TVM fills the whole buffer first",
        ),
        "scopes that are not stage pipelines": Decision(
            "TVM",
            ("read_at", "write_at", "reindex", "reindex_cache_read", "reindex_cache_write", "rfactor"),
            r"MS362|MS368 block `_` stands where",
            "TVM trusts declared regions; mslang requires a proof that every element read was written, and is not "
            "written later",
        ),
        "repeated reductions": Decision(
            "TVM",
            ("decompose_reduction",),
            r"MS314",
            "the init would run once, before a loop that repeats the whole reduction",
        ),
        "reductions of other shapes": Decision(
            "TVM",
            ("fuse_reduction_epilogue",),
            r"MS313|MS353|MS369",
            "TVM matches axes by position, regardless of what else the reduction contains or the epilogue reads",
        ),
        "copies before the writes": Decision(
            "TVM",
            ("cache_read",),
            r"MS344",
            "TVM makes one copy for all consumers, even if one of them reads before the buffer is written",
        ),
        "nothing to cache": Decision(
            "TVM",
            ("cache_index",),
            r"MS363",
            "TVM counts expressions over the whole nest; mslang refuses if none occurs often enough in the block",
        ),
        "loops over a part of an axis": Decision(
            "TVM",
            ("transform_block_layout",),
            r"MS389",
            "each new loop stands for an entire axis; TVM accepts loops over a part of one",
        ),
        "padding that affects the result": Decision(
            "TVM",
            ("pad_einsum",),
            r"MS348|MS373|MS372 (block `_` is not a product|the spatial axis)",
            "TVM fills with 0 whatever the reduction and the indices, and pads axes that a predicate names; the added"
            " iterations must not affect the result",
        ),
        "additional instances": Decision(
            "TVM",
            ("transform_block_layout",),
            r"MS384",
            "the new axes have values that correspond to no old ones; TVM runs the block for them, too",
        ),
        "fills inside lanes and threads": Decision(
            "TVM",
            ("transform_layout", "pad_einsum", "write_at"),
            r"MS310|MS388",
            "TVM fills, or copies, in each lane or thread, all of which would write the same elements concurrently",
        ),
        "nests with outside accesses": Decision(
            "TVM",
            ("pad_einsum",),
            r"MS372 block .* (is in one nest|stands inside)",
            "TVM copies around the whole nest, regardless of other blocks that write there or of reads of unwritten "
            "elements",
        ),
        "dependent nests": Decision(
            "TVM",
            ("merge",),
            r"MS357",
            "TVM does not check dependences; in mslang no nest may depend on a later iteration of an earlier nest",
        ),
        "covered by a proof": Decision(
            "ours",
            ("cache_read", "cache_write", "cache_inplace", "reindex_cache_read", "reindex_cache_write"),
            r"region cover is not complete|is not a single point|written by single block",
            "TVM trusts declared regions and requires a single writer; mslang relies on elements provably stored and "
            "read",
        ),
        "omitted predicates": Decision(
            "TVM",
            ("split",),
            r"MS306",
            "TVM trusts `disable_predication`; mslang requires a proof that no iteration is out of range",
        ),
        "loops that are vectorized, parallel, unrolled or bound": Decision(
            "TVM",
            ("split", "fuse", "merge", "loop_partition", "reorder", "rfactor"),
            r"MS305",
            "TVM silently drops or copies the kind; mslang refuses to lose it",
        ),
        "iterations that access the same elements": Decision(
            "TVM",
            ("parallel", "vectorize", "bind"),
            r"MS309|MS310",
            "TVM checks how blocks bind the loop, not what they access: iterations may write one element concurrently"
            " (a block moved under a loop that it does not use), or share a copy; mslang requires a proof of "
            "independence",
        ),
        "copies in lanes": Decision(
            "TVM",
            ("read_at", "write_at", "reindex_cache_read", "reindex_cache_write"),
            r"MS346 (loop `_` is vectorized|iterations of the)",
            "a vectorized loop contains one block, executed in lanes, and threads share a copy; TVM places the copy "
            "there",
        ),
        "order of several blocks": Decision(
            "TVM",
            ("reorder",),
            r"MS308",
            "TVM does not check dependences between blocks under the same loops; mslang requires a proof",
        ),
        "blocks with opaque axes": Decision(
            "ours",
            ("reorder",),
            r"block iter type other than",
            "TVM requires spatial and reduction axes; mslang checks the dependences themselves",
        ),
        "nested vectorized and parallel loops": Decision(
            "TVM",
            ("vectorize", "parallel", "bind"),
            r"MS311",
            "TVM runs the inner of two vectorized loops serially, with a warning, and generates no code for parallel "
            "loops in parallel ones, or for blockIdx inside threadIdx; mslang refuses in the primitive",
        ),
        "`fuse` of one loop": Decision(
            "ours",
            ("fuse",),
            r"has annotation or thread binding",
            "fusing a single loop changes nothing, whatever its kind; mslang, too, refuses several such loops",
        ),
        "loops that do not start at 0": Decision(
            "ours",
            ("split", "fuse"),
            r"does not start with",
            "TVM splits and fuses only loops that start at 0",
        ),
        "sums without `let`": Decision(
            "ours",
            ("rfactor",),
            r"RFactor cannot be applied to block .* violates condition",
            "TVM requires updates of several buffers to store values of `let`s; mslang requires that none reads what "
            "another wrote",
        ),
        "conditions on several axes": Decision(
            "ours",
            ("reorder",),
            r"affine binding",
            "TVM requires a predicate that bounds single sums of loops; a reordering does not change the meaning of "
            "any predicate",
        ),
        "reads of unwritten elements": Decision(
            "TVM",
            (),
            r"MS332",
            "TVM does not check that every element read was written; mslang requires a proof, which may be missing",
        ),
        "blocks that read and write a buffer": Decision(
            "TVM",
            ("cache_read", "cache_write", "reindex", "reindex_cache_read", "reindex_cache_write"),
            r"MS333",
            "copying one side only would separate the read of an update from its write",
        ),
        "consumers that do not read": Decision(
            "TVM",
            ("cache_read", "cache_write"),
            r"MS330",
            "TVM ignores a consumer that does not read the buffer; mslang treats it as a mistake",
        ),
        "unfinished reductions": Decision(
            "TVM",
            ("write_at", "cache_write", "cache_inplace"),
            r"MS346 loop `[^`]*` still reduces",
            "the copy back would be inside a loop that still reduces: one instance of it would store several values "
            "in turn",
        ),
        "epilogues that change the result": Decision(
            "TVM",
            ("fuse_reduction_epilogue",),
            r"MS371",
            "TVM applies the epilogue to partial results, starting from 0, in every reduction; mslang only if the "
            "result is the same",
        ),
        "inlined where instances are missing": Decision(
            "TVM",
            ("reverse_compute_inline",),
            r"MS348",
            "not all elements that the consumer would write are computed there",
        ),
        "producers that contain several blocks": Decision(
            "TVM",
            ("reverse_compute_inline",),
            r"MS351",
            "TVM inlines into blocks that contain several others; mslang only into those that contain one store",
        ),
        "rolling under concurrent loops": Decision(
            "TVM",
            ("rolling_buffer",),
            r"MS346",
            "elements are passed from one iteration to the next; loops inside may be bound afterwards",
        ),
        "reductions of other types": Decision(
            "TVM",
            ("fuse_reduction_epilogue",),
            r"MS370",
            "a buffer of another type than the sum's would convert the value at each step, which is no longer a sum",
        ),
        "partial results": Decision(
            "TVM",
            ("compute_at", "reverse_compute_at"),
            r"MS346",
            "the value read there is not final, as an enclosing loop still reduces; or the loop is vectorized and "
            "contains a block",
        ),
        "consumers before the loop": Decision(
            "TVM",
            ("reverse_compute_at",),
            r"MS344 .*would write after it",
            "TVM checks only consumers under the loop; others would read elements not yet written",
        ),
        "moved to missing or concurrent instances": Decision(
            "TVM",
            ("compute_at", "reverse_compute_at"),
            r"MS348|MS349|MS310",
            "TVM moves a block without checking which of its instances run there, and how many of them concurrently",
        ),
        "producers that ran before": Decision(
            "ours",
            ("reverse_compute_at",),
            r"requires all the producer",
            "the data may be written before the loop; it suffices that no producer runs after it",
        ),
        "regions beyond those of the enclosing block": Decision(
            "TVM",
            ("annotate_buffer_access",),
            r"MS365",
            "TVM lets a block declare more than its enclosing block does, on whose declaration others rely",
        ),
        "elements that are not determined by the axes": Decision(
            "TVM",
            ("reindex", "reindex_cache_read", "reindex_cache_write"),
            r"MS347|MS360",
            "TVM takes the declared region for the one element that the block accesses, regardless of its statements,"
            " its predicate, and other accesses of the buffer under its loops",
        ),
        "windows that do not overlap": Decision(
            "TVM",
            ("rolling_buffer",),
            r"MS364",
            "TVM uses the declared region, which is larger than what is computed; nothing remains for the next "
            "iteration",
        ),
        "indices that cannot be inverted": Decision(
            "TVM",
            ("reverse_compute_inline",),
            r"MS353",
            "the indices do not determine an element of the producer for each element of the consumer",
        ),
        "reductions under axes of an enclosing block": Decision(
            "TVM",
            ("rfactor",),
            r"MS368 the reduction axis",
            "the reduction continues beyond the enclosing block; TVM would combine partial results too early",
        ),
        "epilogues that read later results": Decision(
            "TVM",
            ("fuse_reduction_epilogue",),
            r"MS344",
            "TVM computes the epilogue at the reduction, before its other operands are written",
        ),
        "epilogues that read what the loop writes": Decision(
            "TVM",
            ("fuse_reduction_epilogue",),
            r"MS320",
            "another block under the loop writes what the epilogue reads; mslang requires a proof that no later "
            "iteration changes it, which may be missing",
        ),
        "copies of unknown instances": Decision(
            "TVM",
            ("reindex", "reindex_cache_write"),
            r"MS348",
            "TVM copies what the axes may have; mslang copies what the block writes, and must know which of its "
            "instances run",
        ),
        "updates of declared parts": Decision(
            "TVM",
            ("decompose_reduction", "rfactor"),
            r"MS313",
            "a block of a partitioned nest declares the part of the buffer that all its instances write; mslang "
            "requires a reduction to declare the one element that an instance updates",
        ),
        "inits under cross-thread reductions": Decision(
            "TVM",
            ("decompose_reduction", "blockize"),
            r"MS310|MS378",
            "the reduction loop is bound to threads: without an init in the block they are not known to combine their"
            " results, and they write the same element concurrently",
        ),
        "nested loops of one thread axis": Decision(
            "TVM",
            ("bind",),
            r"MS395",
            "loops of one thread axis belong to one launch and have one extent; TVM binds a second one of another "
            "extent",
        ),
        "axes of extent 1": Decision(
            "TVM",
            ("reindex_cache_read", "reindex_cache_write"),
            r"MS361",
            "an axis of extent 1 in the indices must be in the map as well; TVM omits it",
        ),
        "padding of blocks that contain others": Decision(
            "TVM",
            ("pad_einsum",),
            r"MS345",
            "TVM pads the axes of an enclosing block, which are opaque, regardless of how the inner blocks use them",
        ),
        "hidden accesses": Decision(
            "TVM",
            (),
            r"MS379|MS352 block `_` hides",
            "a block may still access what it hides; mslang moves nothing past it",
        ),
    }
)
"""The classes by name."""


def decided(op: str, taker: str, reason: str) -> str | None:
    """The class of a disagreement, if it is decided."""
    return next((name for name, each in DECIDED.items() if each.covers(op, taker, reason)), None)
