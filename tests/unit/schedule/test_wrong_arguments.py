"""`Schedule` called with what it cannot take: one diagnostic each, and the program and the trace as they were."""

import inspect
import random
from collections.abc import Callable

import pytest

import mslang as ms
from mslang.diagnostics import MsError, problem
from mslang.interop import tvm, tvmscript
from mslang.ir.print import print_program
from mslang.schedule.methods import Methods
from mslang.schedule.schedule import Schedule
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.sema.program import parse_program

GEMM = parse_program("""program gemm(A: f32[32, 32], B: f32[32, 32], out C: f32[32, 32]) {
    alloc D: f32[32, 32]
    block mm[i: 32, j: 32 | k: 32] { D[i, j] += A[i, k] * B[k, j] }
    block relu[i: 32, j: 32] { C[i, j] = max(D[i, j], 0.0) }
}""")
KERNEL = """@T.prim_func
def {}(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("b"):
            x = T.axis.spatial(16, i)
            B[x] = A[x]
"""
WRONG_INTRIN = "intrin i(inout a: f32[4]) on cpu { desc { block b[n: 4] { a[n] = nothing[n] } } impl {} }"


def stale(s: Schedule) -> object:
    """A loop that a split has consumed."""
    k = s.axis("mm", "k")
    s.split(k, [None, 4])
    return k


def i(s: Schedule) -> object:
    """A loop that is there."""
    return s.axis("mm", "i")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda s: s.split(), TypeError),
        (lambda s: s.split(i(s), [None, 2], 3), TypeError),
        (lambda s: s.apply("split", i(s), [None, 2], "guard", False, 3), "MS205"),
        (lambda s: s.apply("split", i(s)), "MS205"),
        (lambda s: s.apply("split", i(s), [None, 2], how="fast"), "MS205"),
        (lambda s: s.apply("splitt", i(s)), "MS201"),
        (lambda s: s.apply(["split"], i(s)), "MS203"),
        (lambda s: s.apply("perfect_tile", i(s)), "MS201"),
        (lambda s: s.split(s.get("mm"), [None, 2]), "MS203"),
        (lambda s: s.split(None, [None, 2]), "MS203"),
        (lambda s: s.split(i(s), 2), "MS203"),
        (lambda s: s.split(i(s), ["2"]), "MS203"),
        (lambda s: s.split(i(s), [None, 1.5]), "MS203"),
        (lambda s: s.split(i(s), [None, True]), "MS203"),
        (lambda s: s.split(i(s), []), "MS3"),
        (lambda s: s.split(i(s), [None, None]), "MS3"),
        (lambda s: s.split(i(s), [None, 0]), "MS3"),
        (lambda s: s.split(i(s), [None, -4]), "MS3"),
        (lambda s: s.split(i(s), [2, 4]), "MS3"),
        (lambda s: s.split(i(s), [None, 2], tail="trim"), "MS3"),
        (lambda s: s.split(i(s), [None, 2], names="ab"), "MS203"),
        (lambda s: s.split(i(s), [None, 2], names=3), "MS203"),
        (lambda s: s.split(i(s), [None, 2], names=["a", 3]), "MS203"),
        (lambda s: s.split(i(s), [None, 2], names=["a`", "b"]), "MS203"),
        (lambda s: s.split(i(s), [None, 2], names=["a\n", "b"]), "MS203"),
        (lambda s: s.split(stale(s), [None, 2]), "MS211"),
        (lambda s: s.split(Schedule(GEMM).axis("mm", "j"), [None, 2]), "MS203"),
        (lambda s: s.fuse(i(s), s.axis("mm", "k")), "MS3"),
        (lambda s: s.reorder(i(s), i(s)), "MS3"),
        (lambda s: s.reorder(i(s), 3), "MS203"),
        (lambda s: s.compute_at(s.get("mm"), s.get("relu")), "MS203"),
        (lambda s: s.cache_read(s.get("mm"), s.get("C"), "local"), "MS3"),
        (lambda s: s.cache_read(s.get("mm"), s.get("A"), 3), "MS203"),
        (lambda s: s.rfactor(s.axis("mm", "k"), None), "MS203"),
        (lambda s: s.rfactor(s.axis("mm", "k"), 9), "MS303"),
        (lambda s: s.storage_align(s.get("mm"), 7, -1, 32), "MS3"),
        (lambda s: s.annotate(i(s), 3, 4), "MS203"),
        (lambda s: s.annotate(i(s), "k", object()), "MS203"),
        (lambda s: s.transform_layout(s.get("mm"), s.get("D"), 3), "MS203"),
        (lambda s: s.transform_layout(s.get("mm"), s.get("D"), s.index_map(lambda a: [a])), "MS3"),
        (lambda s: s.tensorize(i(s), "std.cpu.nothing"), "MS101"),
        (lambda s: s.tensorize(i(s), WRONG_INTRIN), "MS101"),
        (lambda s: s.tensorize(i(s), "junk"), "MS009"),
        (lambda s: s.tensorize_mapping(s.get("mm"), "std.cpu.dot.u8s8_vnni"), "MS382"),
        (lambda s: s.get("nothing"), "MS201"),
        (lambda s: s.get(["mm"]), "MS201"),
        (lambda s: s.axis("mm", "q"), "MS302"),
        (lambda s: s.axis("mm", ["i"]), "MS203"),
        (lambda s: s.axis(3, "i"), "MS203"),
        (lambda s: s.ask(["loops"], s.get("mm")), "MS203"),
        (lambda s: s.perfect_tile(i(s), 0, name="t"), "MS2"),
        (lambda s: s.perfect_tile(i(s), 2, -1, name="t"), "MS2"),
        (lambda s: s.perfect_tile(i(s), 2, name=3), "MS203"),
        (lambda s: s.perfect_tile(i(s), 2, name="t", address=["t"]), "MS203"),
        (lambda s: s.perfect_tile(s.get("mm"), 2, name="t"), "MS203"),
        (lambda s: s.perfect_tile(stale(s), 2, name="t"), "MS211"),
        (lambda s: [s.uniform(1, 4, name="u") for _ in range(2)], "MS209"),
        (lambda s: s.uniform(4, 4, name="u"), "MS2"),
        (lambda s: s.choose([], name="c"), "MS2"),
        (lambda s: s.choose([1, 2], [1.0], name="c"), "MS2"),
        (lambda s: s.choose([1, 2], [float("inf"), 1.0], name="c"), "MS203"),
        (lambda s: s.choose([1, 2], [float("nan"), 1.0], name="c"), "MS203"),
        (lambda s: s.choose([1, 2], [1e308, 1e308], name="c"), "MS203"),
        (lambda s: s.choose([1, 2], [10**400, 1], name="c"), "MS140"),
        (lambda s: s.choose([1, 2], [0, 0.0], name="c"), "MS203"),
        (lambda s: s.choose([1, 2], [1, -1], name="c"), "MS203"),
        (lambda s: s.choose([1, 1 << 62], name="c"), "MS203"),
        (lambda s: s.uniform(-(1 << 64), 4, name="u"), "MS203"),
        (lambda s: s.uniform(10**5000, 4, name="u"), "MS140"),
        (lambda s: s.perfect_tile(i(s), 10**5000, name="t"), "MS140"),
        (lambda s: s.permute(3, name="p"), "MS2"),
        (lambda s: s.compute_location(i(s), name="at"), "MS203"),
        (lambda s: s.fork(["f"], ["a"]), "MS203"),
        (lambda s: s.fork("f", []), "MS2"),
        (lambda s: s.minimum("a", 2), "MS203"),
        (lambda s: s.minimum([1], [2]), "MS203"),
        (lambda s: s.size("M"), "MS201"),
    ],
)
def test_what_it_cannot_take(call: Callable[[Schedule], object], code: str | type[Exception]) -> None:
    s = Schedule(GEMM)
    if isinstance(code, type):
        with pytest.raises(code):
            call(s)
    else:
        with pytest.raises(MsError) as error:
            call(s)
        assert error.value.diagnostic.code.startswith(code), error.value.diagnostic
        assert error.value.diagnostic.message
    if code != "MS211":
        assert s.parametric == GEMM
        assert all(x.op == "uniform" for x in s.trace.instructions)


def test_random_junk_is_refused_or_taken_whole() -> None:
    rng = random.Random(3)
    methods = [n for n, _ in inspect.getmembers(Methods, inspect.isfunction) if not n.startswith("_")]
    refusals = 0
    for _ in range(400):
        s = Schedule(GEMM)
        mm, dead = s.get("mm"), stale(s)
        pool = [mm, s.get("D"), s.get("A"), *s.loops(mm), dead, Schedule(GEMM).get("mm"), s.uniform(1, 5, name="u")]
        pool += [
            None,
            True,
            0,
            -1,
            2,
            10**20,
            1.5,
            float("nan"),
            "",
            "local",
            "mm",
            "\0",
            [],
            [None, 2],
            [mm],
            {},
            b"x",
        ]
        pool += [object(), s.index_map(lambda a, b: (b, a)), [[2]], {1: 2}, range(3), 1j, ..., GEMM]
        method = getattr(s, rng.choice(methods))
        params = inspect.signature(method).parameters.values()
        named = {p.name: rng.choice(pool) for p in params if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
        before = s.parametric, s.trace
        try:
            method(*(rng.choice(pool) for p in params if p.kind is not p.KEYWORD_ONLY), **named)
        except MsError:
            refusals += 1
            assert (s.parametric, s.trace) == before
        else:
            assert s.trace.as_ms("x") and s.trace.as_json() and s.program
    assert refusals > 200


@pytest.mark.parametrize(
    ("read", "code"),
    [
        (lambda: tvmscript.parse("junk"), "MS736"),
        (lambda: tvmscript.parse("def"), "MS730"),
        (lambda: tvmscript.parse_one(KERNEL.format("f") + KERNEL.format("g")), "MS736"),
        (lambda: tvmscript.parse_one(""), "MS736"),
        (lambda: tvm.parse("junk"), "MS740"),
        (lambda: tvm.parse("3"), "MS740"),
        (lambda: tvm.read_database("nowhere"), "MS747"),
    ],
)
def test_text_of_tvms_that_is_none(read: Callable[[], object], code: str) -> None:
    with pytest.raises(ms.MsError) as error:
        read()
    assert error.value.diagnostic.code.startswith(code)


def test_an_item_called_like_a_word_is_passed_over_where_the_word_is_wanted() -> None:
    text = """program t(A: f32[8], out B: f32[8]) { block b[i: 8] { B[i] = A[i] } }
    schedule peel for t { let x, y = b.i.split([_, 3], tail = peel) }"""
    assert "B[" in print_program(space_of(load("t.ms", text), "peel").sample(0).program)


def test_a_value_that_cannot_be_meant_is_named_shortly() -> None:
    text = """program t(A: f32[8], out B: f32[8]) { block b[i: 8] { B[i] = A[i] } }
    schedule other for t { b.i.vectorize() }
    schedule s for t { let x, y = b.i.split([_, other]) }"""
    with pytest.raises(MsError) as error:
        space_of(load("t.ms", text), "s").sample(0)
    assert "the schedule `other`" in error.value.diagnostic.message and len(str(error.value)) < 1000


def test_no_message_is_longer_than_a_screen() -> None:
    found = problem("MS203", "x" * 20_000, why="y" * 20_000)
    assert len(found.message) <= 400 and found.why is not None and len(found.why) <= 4000
