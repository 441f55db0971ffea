"""Any consistent renaming keeps the workload's hash; any other program has another."""

import random
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mslang.ir.equal import correspondence, workload_hash
from mslang.ir.find import blocks_of, used_names
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.sema.program import parse_program
from tests.property.block_programs import random_program
from tests.property.strategies import programs


def renamed(p: Program, seed: int) -> Program:
    """The program with every name replaced by another, in its text."""
    names = sorted(used_names(p) | {a.name for b in blocks_of(p.body) for a in b.axes} | {p.name})
    rng = random.Random(seed)
    fresh = [f"{rng.choice('abcxyz')}{k}_{rng.randrange(100)}" for k in range(len(names))]
    new = dict(zip(names, rng.sample(fresh, len(fresh)), strict=True))
    return parse_program(re.sub(r"[A-Za-z_]\w*", lambda m: new.get(m[0], m[0]), print_program(p)))


def _check(p: Program, seed: int) -> None:
    q = renamed(p, seed)
    assert q != p
    assert workload_hash(q) == workload_hash(p)
    names = correspondence(p, q)
    assert names is not None
    assert [names.buffers[x.buffer.name] for x in p.params] == [x.buffer.name for x in q.params]
    assert [names.blocks[b.name] for b in blocks_of(p.body)] == [b.name for b in blocks_of(q.body)]


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(0, 1 << 32))
def test_a_renamed_program_is_the_same_workload(p: Program, seed: int):
    _check(p, seed)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 5))
def test_a_renamed_program_of_stages_is_the_same_workload(seed: int, length: int):
    _check(random_program(random.Random(seed), length), seed)


@settings(max_examples=60, deadline=None)
@given(programs(), programs())
def test_other_programs_are_other_workloads(p: Program, q: Program):
    assert (workload_hash(p) == workload_hash(q)) == (correspondence(p, q) is not None)
    first = p.params[0]
    others = [
        replace(p, params=(replace(first, direction="inout" if first.direction == "in" else "in"), *p.params[1:])),
        replace(p, body=p.body[:-1]),
        replace(p, annotations=(("note", 1),)),
        replace(p, params=(replace(first, buffer=replace(first.buffer, align=128)), *p.params[1:])),
    ]
    assert len({workload_hash(x) for x in (p, *others)}) == len(others) + 1
