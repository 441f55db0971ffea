"""Lanes that do not act: what they hold never reaches an element of a buffer kept in registers."""

import pytest

from mslang.backend.reference import interpret
from mslang.sema.program import parse_program
from mslang.target.detect import host
from tests.property.arrays import outputs_equal, random_inputs
from tests.property.judge import compiled, narrow_host


@pytest.mark.parametrize("n", [3, 5, 9, 13, 16])
def test_a_part_of_a_row_of_registers(n):
    """A row of 16 partial sums of which the last step adds to the first `n`: the others stay as they are."""
    program = parse_program(f"""program p(X: f32[3, {16 + n}], t: f32[3], out O: f32[3]) {{
        alloc S: f32[3, 16]
        for i in 3 {{
            for q0 in 2, q1 in 16 @ vectorized {{
                block part[l: 16 = q1, i: 3 = i | k: 2 = q0] {{
                    where k * 16 + l < {16 + n}
                    init {{ S[i, l] = 0.0 }}
                    S[i, l] += X[i, k * 16 + l] - t[i]
                }}
            }}
            for l in 16 {{
                block sum[i: 3 = i | l: 16 = l] {{ init {{ O[i] = 0.0 }} O[i] += S[i, l] }}
            }}
        }} }}""")
    given = random_inputs(program, 1)
    want = interpret.run(program, given)
    for target in (host(), narrow_host()):
        assert outputs_equal(want, compiled(program, given, target, False))
