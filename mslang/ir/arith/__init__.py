"""The arithmetic engine: canonical index expressions, proofs, bounds, regions and iter-map detection.

One engine serves constant shapes, dynamic shapes and sampled decisions: coefficients are polynomials in symbols. What
it uses holds for all values of the symbols, so structure never depends on a decision's value.
"""

from mslang.ir.arith.arrays import compile_arrays
from mslang.ir.arith.bounds import bounds, relax, unbounded
from mslang.ir.arith.boxes import covers, intersect_box, union_box
from mslang.ir.arith.build import add, ceildiv, floordiv, is_size, maximum, minimum, mod, mul, size_product, sub
from mslang.ir.arith.evaluate import evaluate, substitute_symbols
from mslang.ir.arith.inverse import invert
from mslang.ir.arith.itermap import IterMap, NotAffine, detect
from mslang.ir.arith.scope import Ranges
from mslang.ir.arith.simplify import decide, equal, proved, simplify
from mslang.ir.arith.verdict import Verdict

__all__ = [
    "IterMap",
    "NotAffine",
    "Ranges",
    "Verdict",
    "add",
    "bounds",
    "ceildiv",
    "compile_arrays",
    "covers",
    "decide",
    "detect",
    "equal",
    "evaluate",
    "floordiv",
    "intersect_box",
    "invert",
    "is_size",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "proved",
    "relax",
    "simplify",
    "size_product",
    "sub",
    "substitute_symbols",
    "unbounded",
    "union_box",
]
