"""Do two programs mean the same? Interpreted with all checks, and compiled with every access checked."""

from collections.abc import Mapping

import numpy as np

from mslang.backend.llvm.compile import compile
from mslang.backend.reference import interpret
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.lower.passes import lower
from mslang.runtime.kernel import load
from mslang.schedule.replay import space_of_text
from mslang.sema.program import parse_program
from mslang.target.detect import host

Sizes = Mapping[str, int]


def scheduled(program: str, steps: str) -> tuple[Program, Program]:
    """The program of a text, and what the steps of a schedule make of it (of their first draw)."""
    before = parse_program(program)
    space = space_of_text(f"schedule s for {before.name} {{ {steps} }}", before)
    return before, space.sample(0).program


def arrays(program: Program, sizes: Sizes) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = {p.buffer.name: tuple(_number(n, sizes) for n in p.given.shape) for p in program.params}
    return {n: rng.integers(-4, 5, shape).astype("float32") for n, shape in shapes.items()}


def _number(n, sizes: Sizes) -> int:
    from mslang.ir.arith import evaluate, substitute_symbols

    return int(evaluate(substitute_symbols(n, sizes), {}))


def same(before: Program, after: Program, **sizes: int) -> None:
    """`after` is well-formed and gives what `before` gives, bit for bit; all parameters are f32."""
    assert verify(after) == ()
    given = arrays(before, sizes)
    inputs = {p.buffer.name: given[p.buffer.name] for p in before.params if p.direction != "out"}
    want = interpret.run(before, inputs, sizes=sizes)
    got = interpret.run(after, inputs, sizes=sizes)
    target = host()
    made = compile(lower(after, target, checked=True), target)
    out = {n: np.full_like(a, np.nan) if n not in inputs else a.copy() for n, a in given.items()}
    load(made.object, made.signature)(**out)
    for name, expected in want.items():
        assert np.array_equal(expected, got[name]), f"interpreted: {name}"
        assert np.array_equal(expected, out[name]), f"compiled: {name}"
