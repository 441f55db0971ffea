"""Random steps of the primitives that take reductions and paddings apart, and programs that have what they are for."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType

from mslang.ir.dtype import is_integer
from mslang.ir.expr import Binary, Const, Expr, Select
from mslang.ir.find import all_buffers, blocks_of, path_to_block
from mslang.ir.program import Block, Program
from mslang.ir.visit import free_vars
from mslang.sema.program import parse_program
from mslang.transform.analysis.dependence import consumers
from mslang.transform.analysis.formula import formula_of
from mslang.transform.analysis.position import leaves, loops_above
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from tests.property.steps import SELDOM, Family, Maker, Step, Steps


def _rfactor(steps: Steps, p: Program) -> Step:
    """Along a loop that serves reduction axes of the one block under it."""
    found: list[tuple[str, int]] = []
    for b in blocks_of(p.body):
        reducing = {v for a in b.axes if a.kind == "reduce" for v in free_vars(a.binding)}
        if b.init is None:
            continue
        rank = len(b.writes[0].ranges) if b.writes else 0
        for s in loops_above(path_to_block(p, b.name) or ()):
            if s.var in reducing and leaves(s) == (b,):
                found.append((s.var, rank))
    if not found or steps.rng.random() < 0.05:
        return "rfactor", (steps.loop(p), 0), {}
    loop, rank = steps.rng.choice(found)
    return "rfactor", (LoopRef(loop), steps.rng.randint(-rank - 1, rank)), {}


def _fuse_reduction_epilogue(steps: Steps, p: Program) -> Step | None:
    found = [
        (b.name, user.name)
        for b in blocks_of(p.body)
        if b.init is not None and len(b.writes) == 1
        for user in consumers(p, path_to_block(p, b.name) or ())
        if user.init is None
    ]
    if not found:
        return None
    block, epilogue = steps.rng.choice(found)
    return "fuse_reduction_epilogue", (BlockRef(block), BlockRef(epilogue)), {}


def _pad_einsum(steps: Steps, p: Program) -> Step:
    likely = [b for b in blocks_of(p.body) if b.init is not None and len(b.writes) == 1]
    block = steps.rng.choice(likely or list(blocks_of(p.body)))
    return "pad_einsum", (BlockRef(block.name), [steps.rng.choice([1, 2, 3, 4]) for _ in block.axes]), {}


def _change_signedness(steps: Steps, p: Program) -> Step | None:
    types = {n: b.dtype for n, b in all_buffers(p).items()}
    found = [
        (b.name, r.buffer)
        for b in blocks_of(p.body)
        if b.init is not None
        for r in b.reads
        if is_integer(types.get(r.buffer, "f32")) and r.buffer not in {w.buffer for w in b.writes}
    ]
    if not found:
        return None
    block, buffer = steps.rng.choice(found)
    return "change_signedness", (BlockRef(block), BufferRef(buffer)), {}


def _decompose_padding(steps: Steps, p: Program) -> Step | None:
    found = [
        (b.name, s.var)
        for b in blocks_of(p.body)
        for formula in (formula_of(b),)
        if formula is not None and isinstance(formula.value, Select) and isinstance(formula.value.otherwise, Const)
        for s in loops_above(path_to_block(p, b.name) or ())
    ]
    if not found:
        return None
    block, loop = steps.rng.choice(found)
    return "decompose_padding", (BlockRef(block), LoopRef(loop)), {}


def _atomic(steps: Steps, p: Program) -> Step:
    """Mostly a block that reduces without an init, as `decompose_reduction` leaves."""
    found = [b.name for b in blocks_of(p.body) if b.init is None and any(a.kind == "reduce" for a in b.axes)]
    likely = found and steps.rng.random() < 0.9
    return "atomic", (BlockRef(steps.rng.choice(found)) if likely else steps.block(p),), {}


def _rolling_update(steps: Steps, p: Program) -> Step | None:
    """Mostly a maximum along its first loop that reduces, with some of the sums that read what depends on it."""
    found = [
        (b.name, s.var)
        for b in blocks_of(p.body)
        if b.init is not None and any(isinstance(e, Binary) and e.op == "max" for e in (_stored(b),))
        for s in loops_above(path_to_block(p, b.name) or ())
        if any(a.kind == "reduce" and s.var in free_vars(a.binding) for a in b.axes)
    ]
    if not found:
        return None
    name, loop = steps.rng.choice(found)
    sums = [b.name for b in blocks_of(p.body) if b.init is not None and b.name != name]
    taken = sums if steps.rng.random() < 0.7 else [s for s in sums if steps.rng.random() < 0.6]
    return "rolling_update", (BlockRef(name), LoopRef(loop), [BlockRef(s) for s in taken]), {}


def _stored(b: Block) -> Expr | None:
    formula = formula_of(b)
    return None if formula is None else formula.value


STEPS: Mapping[str, Maker] = MappingProxyType(
    {
        "rfactor": _rfactor,
        "fuse_reduction_epilogue": _fuse_reduction_epilogue,
        "pad_einsum": _pad_einsum,
        "change_signedness": _change_signedness,
        "atomic": _atomic,
        "rolling_update": _rolling_update,
        "decompose_padding": _decompose_padding,
    }
)


# ------------------------------------------------------------------ programs
def _positions(rng: random.Random) -> Program:
    """The greatest or least element of each row and where it is, then something with either."""
    n, k = rng.choice([3, 4, 6]), rng.choice([5, 6, 8, 10])
    better, worst = rng.choice([(">", "-inf"), ("<", "inf")])
    dtype = rng.choice(["f32", "i32"])
    if dtype == "i32":
        worst = "-2147483648" if better == ">" else "2147483647"
    x, y = "best[i]", f"{'X' if rng.random() < 0.5 else 'A'}[i, k]"
    keep = rng.choice(
        [
            f"{x} {better}= {y}",
            f"{x} {better} {y}",
            f"{x} {better} {y} or ({x} == {y} and at[i] < i32(k))",
            f"{x} {better} {y} or ({y} == {x} and i32(k) > at[i])",
            f"{x} {better} {y} or ({x} == {y} and at[i] > i32(k))",
        ]
    )
    value = rng.choice([f"select({x} {better}= {y}, {x}, {y})", f"{'max' if better == '>' else 'min'}({x}, {y})"])
    return parse_program(f"""program positions(
    A: {dtype}[{n}, {k}], out at: i32[{n}], out best: {dtype}[{n}], out R: {dtype}[{n}]
) {{
    alloc X: {dtype}[{n}, {k}]
    block make[i: {n}, k: {k}] {{ X[i, k] = A[i, k] * A[i, k] }}
    block find[i: {n} | k: {k}] {{
        init {{ at[i] = i32(-1) best[i] = {worst} }}
        let p = select({keep}, at[i], i32(k))
        let v = {value}
        at[i] = p
        best[i] = v
    }}
    block after[i: {n}] {{ R[i] = best[i] + X[i, 0] }}
}}""")


_UPDATES = (
    "S[i] = max(S[i], {})",
    "S[i] = min({}, S[i])",
    "S[i] += {}",
    "S[i] *= {}",
    "S[i] = S[i] + ({} + 1.0)",
)


def _folds(rng: random.Random) -> Program:
    """A reduction over one axis or two, and an epilogue."""
    n, k, m = rng.choice([3, 5]), rng.choice([4, 5, 6]), rng.choice([2, 3])
    value = rng.choice(["A[i, k, m]", "A[i, k, m] * b[i]", "A[i, k, m] - W[k, m]"])
    update = rng.choice(_UPDATES).format(value)
    if "*=" in update:
        k, m, update = rng.choice([2, 3]), 2, "S[i] *= A[i, k, m]"
    axes = rng.choice([f"i: {n} | k: {k}, m: {m}", f"i: {n} | m: {m}, k: {k}"])
    where = rng.choice(["", "", f"where k + m < {k + m - 2}"])
    after = rng.choice(
        [
            "S[i] + b[i]",
            "b[i] + (S[i] - 2.0)",
            "max(S[i], b[i])",
            "max(min(S[i], 4.0), b[i])",
            "S[i] * b[i]",
            "S[i]",
            "S[i] + S[i]",
        ]
    )
    return parse_program(f"""program folds(A: f32[{n}, {k}, {m}], W: f32[{k}, {m}], b: f32[{n}], out D: f32[{n}]) {{
    alloc S: f32[{n}]
    block fold[{axes}] {{ {where} {update} }}
    block after[i: {n}] {{ D[i] = {after} }}
}}""")


def _two_sums(rng: random.Random) -> Program:
    n, k = rng.choice([3, 4]), rng.choice([4, 6, 7])
    body = rng.choice(
        [
            "let a = s[i] + A[i, k] let c = q[i] + A[i, k] * A[i, k] s[i] = a q[i] = c",
            "s[i] += A[i, k] q[i] += A[i, k] * A[i, k]",
        ]
    )
    return parse_program(f"""program moments(A: f32[{n}, {k}], out V: f32[{n}]) {{
    alloc s: f32[{n}]
    alloc q: f32[{n}]
    block sums[i: {n} | k: {k}] {{ init {{ q[i] = 0.0 s[i] = 0.0 }} {body} }}
    block both[i: {n}] {{ V[i] = q[i] * f32({k}) - s[i] * s[i] }}
}}""")


def _updates(rng: random.Random) -> Program:
    """Elements that are set first, and then updated, some of them where an index says; and what reads them."""
    n, k = rng.choice([3, 4]), rng.choice([4, 6, 8])
    dtype = rng.choice(["f32", "i32", "f64"])
    value = rng.choice(["A[i, k]", "A[i, k] * A[i, k]", "A[0, k] + A[i, 0]"])
    update = rng.choice(["S[i] += {}", "S[i] = max(S[i], {})", "S[i] = min({}, S[i])"]).format(value)
    where = rng.choice(["", f"where i + k < {k}"])
    return parse_program(f"""program updates(A: {dtype}[{n}, {k}], out D: {dtype}[{n}]) {{
    alloc S: {dtype}[{n}]
    block zero[i: {n}] {{ S[i] = {dtype}({rng.choice([0, 1])}) }}
    block add[i: {n} | k: {k}] {{ {where} init {{}} {update} }}
    block after[i: {n}] {{ D[i] = S[i] + A[i, 1] }}
}}""")


def _products(rng: random.Random) -> Program:
    """A product of tensors with odd extents, and an addition after it."""
    m, n, k = (rng.choice([3, 5, 6, 7]) for _ in range(3))
    dtype = rng.choice(["f32", "f32", "i32"])
    body = rng.choice(
        [
            (f"i: {m}, j: {n} | k: {k}", "T[i, j] += X[i, k] * B[k, j]"),
            (f"i: {m}, j: {n} | k: {k}", "T[i, j] += X[i, k] * B[k, j] * w[j]"),
            (f"i: {m}, j: {n} | k: {k}", "T[i, j] = max(T[i, j], B[k, j])"),
            (f"i: {m}, j: {n}", "T[i, j] = X[i, 1] * B[2, j]"),
        ]
    )
    after = rng.choice(["T[i, j] + w[j]", "max(T[i, j], w[j])", "T[i, j] - w[j]"])
    return parse_program(f"""program products(
    A: {dtype}[{m}, {k}], B: {dtype}[{k}, {n}], w: {dtype}[{n}], out C: {dtype}[{m}, {n}]
) {{
    alloc X: {dtype}[{m}, {k}]
    alloc T: {dtype}[{m}, {n}]
    block make[i: {m}, k: {k}] {{ X[i, k] = A[i, k] + A[i, 0] }}
    block mm[{body[0]}] {{ {body[1]} }}
    block after[i: {m}, j: {n}] {{ C[i, j] = {after} }}
}}""")


def _bytes(rng: random.Random) -> Program:
    """A product of small integers in wide ones, of an operand or of a copy of it, and what is done with it."""
    m, n, k = (rng.choice([3, 4, 5, 6]) for _ in range(3))
    a, b = rng.choice(["i8", "i8", "u8", "i16"]), rng.choice(["i8", "i8", "u8", "u16"])
    left, right = rng.choice([("X[i, k]", "B[k, j]"), ("X[i, k]", "B[j, k]"), ("A[i, k]", "B[k, j]")])
    product = rng.choice([f"i32({left}) * i32({right})", f"i32({right}) * i32({left})"])
    where = rng.choice(["", "", f"where i < {m}"])
    shape = f"{n}, {k}" if right == "B[j, k]" else f"{k}, {n}"
    return parse_program(f"""program bytes(A: {a}[{m}, {k}], B: {b}[{shape}], out D: i32[{m}, {n}]) {{
    alloc X: {a}[{m}, {k}]
    alloc C: i32[{m}, {n}]
    block make[i: {m}, k: {k}] {{ X[i, k] = max(A[i, k], A[i, 0]) }}
    block mm[i: {m}, j: {n} | k: {k}] {{ {where} C[i, j] += {product} }}
    block after[i: {m}, j: {n}] {{ D[i, j] = C[i, j] + i32(X[i, 1]) }}
}}""")


def _paddings(rng: random.Random) -> Program:
    """A padded copy, and a window over it."""
    n, m = rng.choice([4, 5, 6]), rng.choice([3, 4])
    low, high = rng.randint(0, 2), rng.randint(0, 2)
    low = max(low, 1 - high)
    inside = rng.choice(
        [
            f"i >= {low} and i < {low + n}",
            f"{low} <= i and i - {low} < {n}",
            f"0 <= i - {low} and {low + n} > i and j < {m}",
            f"i >= {low} and i < {low + n} and j >= 1",
        ]
    )
    total = n + low + high
    return parse_program(f"""program paddings(A: f32[{n}, {m}], out O: f32[{total - 1}, {m}]) {{
    alloc P: f32[{total}, {m}]
    block pad[i: {total}, j: {m}] {{ P[i, j] = select({inside}, A[i - {low}, j] * 2.0, {rng.choice(["0.0", "1.0"])}) }}
    block window[i: {total - 1}, j: {m} | r: 2] {{ O[i, j] += P[i + r, j] }}
}}""")


def _mixed(rng: random.Random) -> Program:
    """A padding, a reduction over it, what can be done within that, and an update in place."""
    n, m = rng.choice([3, 4, 6]), rng.choice([3, 4])
    update, after = rng.choice(
        [
            ("S[i] += P[i, k]", "S[i] + b[i]"),
            ("S[i] += P[i, k]", "b[i] + S[i]"),
            ("S[i] = max(S[i], P[i, k])", "max(S[i], b[i])"),
            ("S[i] = min(S[i], P[i, k])", "min(b[i], S[i])"),
        ]
    )
    return parse_program(f"""program mixed(A: f32[{n}, {m}], b: f32[{n}], inout U: f32[{n}], out D: f32[{n}]) {{
    alloc P: f32[{n}, {m + 2}]
    alloc S: f32[{n}]
    alloc E: f32[{n}]
    block pad[i: {n}, j: {m + 2}] {{ P[i, j] = select(j >= 1 and j < {m + 1}, A[i, j - 1], 0.0) }}
    block fold[i: {n} | k: {m + 2}] {{ {update} }}
    block after[i: {n}] {{ E[i] = {after} }}
    block change[i: {n}] {{ U[i] = U[i] + E[i] }}
    block last[i: {n}] {{ D[i] = U[i] * 2.0 - b[i] }}
}}""")


FAMILY = Family(
    STEPS,
    MappingProxyType(
        {
            "rfactor": 4,
            "fuse_reduction_epilogue": 12,
            "pad_einsum": 3,
            "change_signedness": 24,
            "atomic": 4,
            "decompose_padding": 10,
            "rolling_update": SELDOM,
        }
    ),
    (_positions, _folds, _two_sums, _updates, _products, *(_bytes,) * 3, _paddings, *(_mixed,) * 5),
)


def products_and_updates(rng: random.Random) -> Program:
    """A product of small integers, and elements that another reduction updates: hardly any other program has either."""
    m, n, k = (rng.choice([3, 4, 5, 6, 8]) for _ in range(3))
    a, b = rng.choice(["i8", "u8", "i16", "i32"]), rng.choice(["i8", "u8", "u16", "i32"])
    total = rng.choice(["i32", "i32", "i64", "u32"])
    axes = rng.choice([f"i: {m}, j: {n} | k: {k}", f"j: {n}, i: {m} | k: {k}"])
    left, right = f"{total}(A[i, k])", f"{total}({rng.choice(['B[k, j]', 'max(B[k, j], B[0, j])'])})"
    value = rng.choice(["C[i, j]", "C[i, j] * C[i, 0]", f"C[i, j] + {total}(j)"])
    start = rng.choice(["0", "0", "3"])
    update = rng.choice(["D[i] += {}", "D[i] = max(D[i], {})", "D[i] = min({}, D[i])"]).format(value)
    return parse_program(f"""program mixed_sums(
    A: {a}[{m}, {k}], B: {b}[{k}, {n}], inout D: {total}[{m}], out E: {total}[{m}]
) {{
    alloc C: {total}[{m}, {n}]
    block mm[{axes}] {{ init {{ C[i, j] = {total}({start}) }} C[i, j] += {left} * {right} }}
    block add[i: {m} | j: {n}] {{ init {{}} {update} }}
    block after[i: {m}] {{ E[i] = D[i] - C[i, 1] }}
}}""")


def relative_sums(rng: random.Random) -> Program:
    """The maximum of each row, and sums of powers of two relative to it, which are exact; in one or two ways."""
    n, k, m = rng.choice([2, 3, 4]), rng.choice([5, 6, 8, 9]), rng.choice([2, 3])
    dtype = rng.choice(["f32", "f32", "f64"])
    x = rng.choice(["A[i, k]", "A[i, k]", "A[i, k] + b[k]", "min(A[i, k], b[k])"])
    once = f"exp2({x} - M[i])"
    # The exponents of a sum go down to -12: of squares, sums would need 30 bits.
    squared = once if dtype == "f32" and "+" in x else f"exp2(({x} - M[i]) * {dtype}(2.0))"
    power = rng.choice([once, once, squared])
    powers = rng.random() < 0.5
    weights = f"alloc P: {dtype}[{n}, {k}]" if powers else ""
    made = f"block powers[i: {n}, k: {k}] {{ P[i, k] = {power} }}" if powers else ""
    term = "P[i, k]" if powers else power
    first = rng.choice([term, term, f"{term} * b[k]", f"-{term} - {term} * b[k]", f"{term} + b[k]"])
    between = rng.choice(["", "", f"block aside[i: {n}] {{ R[i] = b[0] }}"])
    after = "S[i] + M[i]" if between == "" else "S[i] + R[i]"
    return parse_program(f"""program relative(
    A: {dtype}[{n}, {k}], b: {dtype}[{k}], V: {dtype}[{k}, {m}], out D: {dtype}[{n}], out E: {dtype}[{n}, {m}]
) {{
    alloc M: {dtype}[{n}]
    alloc S: {dtype}[{n}]
    alloc R: {dtype}[{n}]
    {weights}
    block top[i: {n} | k: {k}] {{ M[i] = max(M[i], {x}) }}
    {made}
    block sum[i: {n} | k: {k}] {{ S[i] += {first} }}
    {between}
    block mix[i: {n}, j: {m} | k: {k}] {{ E[i, j] += {term} * V[k, j] }}
    block after[i: {n}] {{ D[i] = {after} }}
}}""")
