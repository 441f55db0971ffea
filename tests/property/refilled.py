"""Programs in which a loop overwrites what was finished before it: what follows must not move into the loop."""

from __future__ import annotations

import random

from mslang.ir.program import Program
from mslang.sema.program import parse_program


def refilled(rng: random.Random) -> Program:
    """A vector that is set twice, the second time beside a map or sums of rows, and something with both."""
    n, m = rng.choice([4, 6, 8]), rng.choice([3, 4])
    place = rng.choice(["i", "i", f"{n - 1} - i"])
    at = rng.choice(["x", f"{n - 1} - x", "x // 2", "0"])
    value, once = rng.choice(["A[x, 0] * 2.0", "W[x] + 1.0"]), rng.random() < 0.3
    made = (
        f"block make[x: {n} = PLACE] {{ X[x] = {value} }}"
        if rng.random() < 0.5
        else f"for k in {m} {{ block make[x: {n} = PLACE | k: {m} = k] {{ init {{ X[x] = 0.0 }} X[x] += A[x, k] }} }}"
    )
    made = f"for j in {n} {{ {made.replace('PLACE', 'j')} }}" if once else made.replace("PLACE", place)
    steps = [f"block fill[x: {n} = i] {{ B[x] = W[x] }}", made]
    if rng.random() < 0.2:
        steps.reverse()
    return parse_program(f"""program again(A: f32[{n}, {m}], W: f32[{n}], out R: f32[{n}]) {{
    alloc X: f32[{n}]
    alloc B: f32[{n}]
    block clear[x: {n}] {{ B[x] = 1.0 }}
    for i in {n} {{ {" ".join(steps)} }}
    block after[x: {n}] {{ R[x] = X[x] + B[{at}] }}
}}""")
