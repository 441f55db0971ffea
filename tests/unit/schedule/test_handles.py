"""Handles that died say who consumed them and what stands in their place: from Python, run, and checked."""

import inspect

import pytest

import mslang as ms
from mslang.diagnostics import MsError
from mslang.ide.findings import findings
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load

PROGRAM = """program p(A: f32[64, 64], out B: f32[64, 64]) {
    alloc T: f32[64, 64]
    block a[i: 64, j: 64] { T[i, j] = A[i, j] + 1.0 }
    block b[i: 64, j: 64] { B[i, j] = T[i, j] * 2.0 }
}
"""


def dead(act):
    with pytest.raises(MsError) as refused:
        act()
    assert refused.value.diagnostic.code == "MS211"
    return refused.value.diagnostic


def here() -> int:
    return inspect.currentframe().f_back.f_lineno


def test_python_says_file_and_line():
    s = ms.Schedule(ms.parse_program(PROGRAM))
    i = s.axis("a", "i")
    s.split(i, [None, 8], names=["i0", "i1"])
    line = here() - 1
    d = dead(lambda: s.parallel(i))
    assert d.message == "loop `i` no longer exists"
    assert d.why == f"it was consumed by `split(…)` at {__file__}:{line}"
    assert d.help == "use its replacement: `i0`, `i1`"


def test_a_chain_is_told_to_what_lives():
    s = ms.Schedule(ms.parse_program(PROGRAM))
    i = s.axis("a", "i")
    i0, i1 = s.split(i, [None, 8], names=["i0", "i1"])
    f = s.fuse(i0, i1, names=["f"])
    d = dead(lambda: s.unroll(i))
    assert "`i0`, its replacement, by `fuse(…)`" in d.why
    assert d.help == "use its replacement: `f`"
    s.split(f, [4, None], names=["g", "h"])
    assert dead(lambda: s.unroll(i1)).help == "use its replacement: `g`, `h`"


def test_what_vanished_without_successor_says_so():
    s = ms.Schedule(ms.parse_program(PROGRAM))
    a = s.get("a")
    s.compute_inline(a)
    assert dead(lambda: s.loops(a)).why.startswith("it was consumed by `compute_inline(…)`")


CONSUMING = {
    "split": ("let x, y = i.split([_, 8])", "`x`, `y`"),
    "fuse": ("let x = fuse(i, a.j)", "`x`"),
    "loop_partition": ("let x, y = i.loop_partition([16, _])", "`x`, `y`"),
    "merge": ("let x = merge(i, b.i)", "`x`"),
    "specialize": ("let x, y = i.specialize(64 == 64)", "`x`, `y`"),
}


@pytest.mark.parametrize("op", CONSUMING)
def test_checker_and_interpreter_agree(op):
    statement, into = CONSUMING[op]
    text = f"{PROGRAM}schedule s for p {{\n    let i = a.i\n    {statement}\n    i.unroll()\n}}\n"
    module = load("t.ms", text)
    found = [d for d in findings(module) if d.code == "MS211"]
    assert len(found) == 1
    (d,) = found
    assert d.why == f"`{op}` consumed it"
    assert d.help == f"use its replacement: {into}"
    assert text[d.notes[0].span.start : d.notes[0].span.end] == op
    ran = dead(lambda: space_of(module, "s").sample(0))
    shown = " ".join(statement.split())
    assert ran.why == f"it was consumed by `{shown.partition(' = ')[2]}`"
    assert ran.help == f"use its replacement: {into}"
    assert text[ran.notes[0].span.start : ran.notes[0].span.end] == shown.partition(" = ")[2]


NESTED = """program p(A: f32[8], out B: f32[8], out C: f32[8]) {
    for i in 8 {
        block a[x: 8 = i] { B[x] = A[x] }
        block b[x: 8 = i] { C[x] = A[x] }
    }
}
"""
EPILOGUE = """program p(A: f32[8, 8], bias: f32[8], out B: f32[8]) {
    alloc T: f32[8]
    block s[x: 8 | k: 8] { T[x] += A[x, k] }
    block e[x: 8] { B[x] = T[x] + bias[x] }
}
"""


def test_fission_and_epilogues_consume_too():
    s = ms.Schedule(ms.parse_program(NESTED))
    (i,) = s.loops(s.get("a"))
    s.fission(i, s.get("a"), names=["first", "rest"])
    assert dead(lambda: s.unroll(i)).help == "use its replacement: `first`, `rest`"
    s = ms.Schedule(ms.parse_program(EPILOGUE))
    e = s.get("e")
    s.fuse_reduction_epilogue(s.get("s"), e)
    assert "`fuse_reduction_epilogue(…)`" in dead(lambda: s.loops(e)).why


def test_the_checker_follows_chains():
    text = PROGRAM + (
        "schedule s for p {\n    let i = a.i\n    let x, y = i.split([_, 8])\n"
        "    let f = fuse(x, y)\n    i.unroll()\n}\n"
    )
    (d,) = [d for d in findings(load("t.ms", text)) if d.code == "MS211"]
    assert d.why == "`split` consumed it; `x`, its replacement, by `fuse`; `y`, its replacement, by `fuse`"
    assert d.help == "use its replacement: `f`"
    assert d.fixes[0].text == "f"
