"""Products with fixed-point factors in TVMScript, spelled out in integers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mslang.interop.tvmscript.call_arguments import bound, needed
from mslang.interop.tvmscript.scope import Scope
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.interop.tvmscript.values import Number, as_data, condition, constant
from mslang.ir.expr import Const, Select
from mslang.ir.fixed_point import q_multiply_shift, q_multiply_shifted

if TYPE_CHECKING:
    from mslang.interop.tvmscript.expressions import Expressions


def by_constants(read: Expressions, e: ast.Call, scope: Scope) -> Number:
    """`T.q_multiply_shift(x, y, q, s)`; there a positive `s` shifts to the left."""
    found = bound(e, "x", "y", "q", "s", "**")
    x, y, q, s = (read.number(needed(e, found, n), scope) for n in ("x", "y", "q", "s"))
    match constant(q), constant(s):
        case int() as bits, int() as left if 1 <= bits - left <= 62:
            return Number(q_multiply_shift(as_data(x, "i32"), as_data(y, "i32"), bits, -left), "i32")
    raise refuse("MS731", e, f"`{text_of(e)}` does not shift by 1 to 62 bits", "the shifts are numbers here")


def by_data(read: Expressions, e: ast.Call, scope: Scope) -> Number:
    """`T.q_multiply_shift_per_axis(x, y, left, right, q, is_left, is_right)`."""
    found = bound(e, "x", "y", "ls", "rs", "q", "is_lshift_required", "is_rshift_required", "**")
    x, y, left, right, q = (
        as_data(read.number(needed(e, found, n), scope), "i32") for n in ("x", "y", "ls", "rs", "q")
    )
    flag = needed(e, found, "is_lshift_required")
    shifted = condition(read.number(flag, scope), flag)
    by = Const(0, "i32") if shifted == Const(False, "bool") else left
    if not isinstance(shifted, Const):
        by = Select(shifted, left, by)
    return Number(q_multiply_shifted(x, y, q, by, right), "i32")
