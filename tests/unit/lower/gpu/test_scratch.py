"""Scratch memory that texts declare by `#shared`: how much there is, and who has which part of it."""

from __future__ import annotations

import re

import pytest

from mslang.backend.cuda.texts import read_text
from mslang.diagnostics import MsError, TargetError
from mslang.ir.arith import evaluate
from mslang.ir.expr import Const
from mslang.ir.intrin import Scratch, scratch_of
from mslang.ir.print import print_expr
from mslang.ir.program import Buffer
from mslang.kernel import Allocate, Invoke
from mslang.kernel.visit import walk
from mslang.lower.gpu import lower
from mslang.lower.summary import summarize
from mslang.lower.summary.limits import require_within_limits
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule import distribution
from mslang.schedule.space import Candidate
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import SM_90

TEXT = """use std.cuda.{sm_90}
intrin moved(src: f32[4] @ global, out dst: f32[4] @ SCOPE) on cuda(sm >= 90) {
    desc {
        block copy[i: 4] { dst[i] = src[i] }
    }
    impl cuda \"\"\"
        #shared WORD[2] u64
        {WORD}[0] = 0;
    \"\"\"
}
program p(A: f32[24, 8, 4], out B: f32[24, 8, 4]) {
    block b[i: 24, j: 8, k: 4] { B[i, j, k] = A[i, j, k] }
}
schedule s for p on sm_90 {
    let a = b.cache_read(A, scope = "SCOPE")
    let t ~ perfect_tile(b.i, 2)
    let i0, i1 = b.i.split(t)
    i0.bind(blockIdx.x)
    let j = b.j
    a.compute_at(AT)
    i1.bind(threadIdx.y)
    j.bind(threadIdx.x)
    let each = a.spatial_loops()[-2]
    let last = a.spatial_loops()[-1]
    last.tensorize(moved)
    REST
}
"""


def text(scope: str = "shared", word: str = "word", rest: str = "each.bind(threadIdx.x)") -> str:
    at = "j" if scope == "local" else "i1"
    return TEXT.replace("AT", at).replace("SCOPE", scope).replace("WORD", word).replace("REST", rest)


def candidate(source: str, rows: int) -> Candidate:
    """The schedule by which blocks have so many rows."""
    return space_of(load("scratch.ms", source), "s").sample(0, {"t": (24 // rows, rows)})


def kernel(source: str) -> tuple[Invoke, Buffer]:
    """The instruction of a kernel whose blocks have 4 rows, and its scratch memory."""
    (f,) = lower(candidate(source, 4).program, SM_90).functions
    (s,) = (s for s in walk(f.body) if isinstance(s, Invoke))
    (found,) = (s.buffer for s in walk(f.body) if isinstance(s, Allocate) and s.buffer.dtype == "u64")
    return s, found


def shape(b: Buffer) -> list[int]:
    return [int(e.value) for e in b.shape if isinstance(e, Const)]


@pytest.mark.parametrize(
    ("scope", "rest", "sizes", "element"),
    [
        # each thread fills its own row of shared memory
        ("shared", "each.bind(threadIdx.x)", [4, 8, 2], "word[threadIdx.y, threadIdx.x, 0]"),
        # one thread of a row fills it for all
        ("shared", "", [4, 2], "word[threadIdx.y, 0]"),
        # every thread fills memory of its own
        ("local", "", [4, 8, 2], "word[threadIdx.y, threadIdx.x, 0]"),
    ],
)
def test_each_thread_that_runs_a_text_has_elements_of_its_own(
    scope: str, rest: str, sizes: list[int], element: str
) -> None:
    s, found = kernel(text(scope, rest=rest))
    assert (found.scope, shape(found)) == ("shared", sizes)
    assert print_expr(s.operands[-1]).replace("`", "") == element


def test_it_gets_a_name_that_is_free() -> None:
    s, found = kernel(text(word="A"))
    assert found.name == "A_1"
    assert [p.name for p in s.params] == ["src", "dst", "A"]


@pytest.mark.parametrize("rows", [1, 2, 24])
def test_limits_count_it_whether_decisions_are_open_or_not(rows: int) -> None:
    c = candidate(text(), rows)
    values = distribution.plain({d.address: c.decisions[d.address] for d in c.sketch.decisions})
    (open_,) = summarize(lower_symbolic(c.sketch.program, SM_90), SM_90).nests
    (fixed,) = summarize(lower_symbolic(c.program, SM_90), SM_90).nests
    assert evaluate(fixed.shared, {}) == evaluate(open_.shared, {}, values) == rows * 8 * (4 * 4 + 2 * 8)


def test_memory_that_it_makes_too_large_is_refused() -> None:
    source = text().replace("word[2]", "word[1600]")
    with pytest.raises(TargetError, match=r"`i0` needs \d+ bytes of shared memory a block") as caught:
        require_within_limits(candidate(source, 4).program, SM_90)
    assert caught.value.diagnostic.code == "MS461"


def test_instructions_of_one_launch_that_need_the_same_share_it() -> None:
    source = text().replace('let a = b.cache_read(A, scope = "shared")', "let a = b.cache_read(A, scope = shared)")
    two = source.replace("A: f32[24, 8, 4], out", "A: f32[24, 8, 4], C: f32[24, 8, 4], out")
    two = two.replace("= A[i, j, k]", "= A[i, j, k] + C[i, j, k]").replace(
        "i0.bind(blockIdx.x)",
        """i0.bind(blockIdx.x)
    let c = b.cache_read(C, scope = shared)
    c.compute_at(i1)
    let other = c.spatial_loops()[-1]
    c.spatial_loops()[-2].bind(threadIdx.x)
    other.tensorize(moved)""",
    )
    (f,) = lower(candidate(two, 4).program, SM_90).functions
    used = [s.operands[-1] for s in walk(f.body) if isinstance(s, Invoke)]
    assert len(used) == 2 and used[0] == used[1]
    assert sum(isinstance(s, Allocate) and s.buffer.dtype == "u64" for s in walk(f.body)) == 1


def test_a_text_declares_its_scratch_memory() -> None:
    assert scratch_of("#shared a[1] u64\n  #shared b[32] f32\nx = 1;") == (
        Scratch("a", 1, "u64"),
        Scratch("b", 32, "f32"),
    )
    assert read_text("moved", "#shared a[1] u64\nx = 1;").statements == "x = 1;"


@pytest.mark.parametrize("line", ["#shared a u64", "#shared a[0] u64", "#shared a[1] unsigned int"])
def test_a_declaration_that_is_not_one_is_refused(line: str) -> None:
    with pytest.raises(MsError, match=re.escape(f"the text of `moved` has the line `{line}`")) as caught:
        read_text("moved", line)
    assert caught.value.diagnostic.code == "MS441"


def test_scratch_memory_is_not_called_as_an_operand_is() -> None:
    says = "the text of `moved` declares `#shared src`, and `src` is an operand"
    with pytest.raises(MsError, match=says) as caught:
        kernel(text(word="src"))
    assert caught.value.diagnostic.code == "MS441"


def test_only_what_a_text_declares_has_a_name_in_it() -> None:
    assert not load("scratch.ms", text()).diagnostics
    (found,) = load("scratch.ms", text().replace("{word}", "{other}")).diagnostics
    assert (found.code, found.message) == ("MS161", "unknown operand `other` in the text")
