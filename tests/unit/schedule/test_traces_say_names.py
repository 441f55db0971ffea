"""Traces whose results, decisions and items have names that mean something else, too: each replays as it ran."""

from __future__ import annotations

from pathlib import Path

import pytest

import mslang as ms
from mslang.schedule.replay import replay
from mslang.schedule.space import Candidate
from mslang.schedule.trace import Trace

ONE = "program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] + 1.0 } }\n"
TWO = """program p[M: dyn(1..64)](A: f32[M, 64], out C: f32[M, 64]) {
    alloc B: f32[M, 64]
    block bb[i: M, j: 64] { B[i, j] = A[i, j] + 1.0 }
    block cc[i: M, j: 64] { C[i, j] = B[i, j] + 1.0 }
}
"""
RULES = """rule r(x: block) { x.loops()[0].parallel() }
rule q(x: block) { x.loops()[0].vectorize() }
schedule s for p { let t ~ choose([2, 4])
    let a, c = b.i.split([_, t]) }
schedule u for p { b.i.unroll() }
"""
UNION = {
    "of rules": ONE + RULES + "space c for p = r | q",
    "of sequences": ONE + RULES + "space d for p = s >> q\nspace e for p = s >> r\nspace c for p = d | e",
    "in parentheses": ONE + RULES + "space c for p = (s | u) | u",
    "of schedules": ONE + RULES + "space c for p = s | u",
    "of a space": ONE + RULES + "space d for p = s | u\nspace c for p = d | u",
    "called like a block": ONE + RULES + "schedule b for p { b.i.parallel() }\nspace c for p = b | u",
}
INSIDE = """fn f(x: block) {{ {inside}
    return a }}
schedule c for p {{ let y = f({block})
    {rest} }}"""
NAMED = {
    "a decision like a size": INSIDE.format(
        inside="let M ~ choose([4, 8])\nlet a, c = x.j.split([_, M])",
        block="bb",
        rest="cc.j.specialize(M % 16 == 0)",
    ),
    "a loop like a size": INSIDE.format(
        inside="let M, k = x.j.split([_, 4])\nlet a = M", block="bb", rest="cc.j.specialize(M % 16 == 0)"
    ),
    "a loop like a place": INSIDE.format(
        inside="let root, i1 = x.j.split([_, 4])\nlet a = root", block="cc", rest="bb.compute_at(root)"
    ),
    "a decision like a scope": INSIDE.format(
        inside="let local ~ choose([4, 8])\nlet a, b = x.j.split([_, local])", block="cc", rest="bb.set_scope(B, local)"
    ),
    "a decision like a block": """fn f(x: block) { let cc_tail ~ choose([4, 8])
        let a, t = x.j.split([_, cc_tail])
        return a }
    schedule c for p { let k, l = cc.j.split([_, 7], tail = peel)
        let y = f(bb)
        cc_tail.j.parallel() }""",
    "a place called like a loop that is gone": """schedule c for p { let ax0, y = cc.j.split([_, 4])
        let f = ax0.fuse(y)
        let z = cc.cache_read(B)
        let w ~ compute_location(bb)
        bb.compute_at(w) }""",
    "a place": "schedule c for p { bb.compute_at(root) }",
    "no place": "schedule c for p { bb.compute_at(inline) }",
    "one of several places": "schedule c for p { let w ~ choose([root, inline])\nbb.compute_at(w) }",
    "one of several fns": """fn f(x: block) { x.j.unroll() }
    fn g(x: block) { x.j.vectorize() }
    schedule c for p { let w ~ choose([f, g])
        w(bb) }""",
    "one of two zeros": 'schedule c for p { let w ~ choose([0.5, -0.0, 0.0])\nbb.annotate("k", w) }',
}


@pytest.mark.parametrize("text", [*UNION.values(), *(TWO + x for x in NAMED.values())], ids=[*UNION, *NAMED])
def test_every_form_of_a_trace_means_what_ran(text: str) -> None:
    source = ms.parse(text)
    space = source.space("c")
    for seed in range(8):
        made = space.sample(seed)
        assert isinstance(made, Candidate)
        replayed = replay(source.program("p"), Trace.from_json(made.trace.as_json()))
        forms = {
            "JSON": replayed.program,
            "decisions": space.replay(made.decisions).program,
            "flat": ms.parse(f"{text}\n{made.trace.as_ms('flat')}").space("flat").sample(3).program,
            "pinned": ms.parse(f"{text}\n{made.trace.as_ms('best', pinned=True)}")
            .space("best")
            .sample(seed + 7)
            .program,
        }
        for form, program in forms.items():
            assert ms.print_program(program) == ms.print_program(made.program), form


def test_a_pinned_call_of_another_file_s_union_says_its_label(tmp_path: Path) -> None:
    """The schedules that it is a union of are called otherwise here, or not at all."""
    (tmp_path / "other.ms").write_text(
        ONE
        + """schedule s(n: int) for p { let t ~ choose([8, 16])
            let a, c = b.i.split([_, t * n]) }
        schedule q for p { b.i.unroll() }
        space d for p = s(2) | q
        """
    )
    text = 'use "./other.ms".{p, d}\nspace c for p = d\nschedule q for p { }\n'
    (tmp_path / "main.ms").write_text(text)
    for seed in range(4):
        made = ms.load(tmp_path / "main.ms").space("c").sample(seed)
        pinned = tmp_path / "pinned.ms"
        pinned.write_text(f"{text}\n{made.trace.as_ms('best', pinned=True)}")
        assert ms.load(pinned).space("best").sample(seed + 9).program == made.program


def test_a_call_is_said_with_its_strings_and_without_its_comments() -> None:
    text = ONE + 'schedule s(x: str) for p { b.annotate("k", x) }\nspace c for p = s( # how\n "a  b") | s("c")'
    for seed in range(4):
        made = ms.parse(text).space("c").sample(seed)
        again = ms.parse(f"{text}\n{made.trace.as_ms('best', pinned=True)}").space("best").sample(seed + 9)
        assert again.program == made.program
