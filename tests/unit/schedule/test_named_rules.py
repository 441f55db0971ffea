"""Rules by name: in spaces of `.ms`, by annotation, as Python functions, from packages; sets by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import msgspec
import pytest

import mslang as ms
from mslang import extensions
from mslang.diagnostics import MsError
from mslang.ops.library import LIBRARY
from mslang.ops.signature import Required
from mslang.schedule.interpret import World
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.named import RULES
from mslang.schedule.rules.postprocess import AfterRules
from mslang.schedule.rules.restricted import Restricted
from mslang.schedule.rules.rule import Rule
from mslang.schedule.rules.sets import SETS, RuleSet
from mslang.schedule.schedule import Schedule
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Space
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.sema.native import MODULES
from mslang.target.description import AVX512, GENERIC, SM_80, Target
from tests.unit.equivalence import changed

AMX = msgspec.structs.replace(
    AVX512, name="amx", features=(*AVX512.features, "avx512vnni", "amx-tile", "amx-int8"), cores=4
)
TEXT = """
program gemm[M = 16, N = 32, K = 8](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    alloc T: f32[M, N]
    block mm[i: M, j: N | k: K] { T[i, j] += A[i, k] * B[k, j] }
    block relu[i: M, j: N] { C[i, j] = max(T[i, j], 0.0) }
}
program scale[M = 32](A: f32[M], out B: f32[M]) {
    block b[i: M] { attr "schedule_rule" = "RULE" B[i] = A[i] * 2.0 }
}
rule dealt(b: block) when b.is_injective() { let t ~ choose([2, 4]) b.loops()[0].split([_, t]) }
schedule by_hand for gemm { mm.k.split([_, 4]) }
space mixed for gemm = by_hand | std.cpu.auto
space after for gemm = by_hand >> std.rules.parallelize_vectorize_unroll(unroll_steps = [0, 32], max_jobs_per_core = 2)
space few for gemm = std.cpu.quick
space named for gemm = std.rules.named("dealt")
space lost for gemm = std.rules.named("delt")
space custom for scale = std.rules.custom
"""


def module(rule: str = "dealt"):
    return load("rules.ms", TEXT.replace("RULE", rule))


def legal(space: Space) -> list[Sketch]:
    """The sketches, all legal, a candidate of each computing the same."""
    found = list(space.structures())
    assert all(isinstance(s, Sketch) for s in found)
    for k, s in enumerate(found):
        c = space.sample(k, dict(s.structure))
        assert changed(space.program, c.program, 1e-4, k) is None
    return [s for s in found if isinstance(s, Sketch)]


def space(name: str, **world: object) -> Space:
    return space_of(module(), name, world=World(machine=AVX512, **world))  # type: ignore[arg-type]


def test_parts_by_hand_and_automatic_ones_are_one_space() -> None:
    found = legal(space("mixed"))
    assert [dict(s.structure)["mixed"] for s in found] == ["by_hand", *["std.cpu.auto"] * (len(found) - 1)]
    automatic = automatic_space(space("mixed").program, AVX512)
    assert [s.program for s in found[1:]] == [s.program for s in automatic.sketches()]


def test_a_rule_goes_on_from_a_schedule_with_arguments_of_its_own() -> None:
    (s,) = legal(space("after"))
    assert s.addresses == ("parallelize_vectorize_unroll:mm/unroll",)
    assert "choose([0, 32])" in s.as_ms() and "let k_0, k_1" in s.as_ms() and ".parallel()" in s.as_ms()


def test_the_quick_space_leaves_few_decisions_open() -> None:
    (s,) = legal(space("few"))
    assert 2 <= len(s.addresses) <= 3


def test_wrong_arguments_are_refused() -> None:
    text = TEXT + 'space bad for gemm = std.rules.parallelize_vectorize_unroll(unroll_steps = "all")\n'
    with pytest.raises(MsError) as refused:
        space_of(load("rules.ms", text), "bad").sample(0)
    assert refused.value.diagnostic.code == "MS203"


def test_without_sizes_of_vectors_a_long_loop_is_not_shared() -> None:
    text = "program p(out B: f32[4096]) { block b[i: 4096] { B[i] = 1.0 } }"
    text += " space s for p = std.rules.parallelize_vectorize_unroll(vector_extents = [])"
    (sketch,) = space_of(load("own.ms", text), "s").sketches()
    assert [i.op for i in sketch.trace.instructions] == ["parallel"]


def test_signatures_of_the_library_are_those_of_the_rules() -> None:
    for name, named in RULES.items():
        for p in LIBRARY[f"std.rules.{name}"].params:
            assert not isinstance(p.default, Required) and getattr(named.rule, p.name) == p.default


# ------------------------------------------------------------------ by annotation
def test_an_annotation_names_the_rule_that_schedules_a_block() -> None:
    m = module()
    (s,) = legal(automatic_space(ms.parse(TEXT.replace("RULE", "dealt")).program("scale"), GENERIC, module=m))
    assert s.addresses == ("dealt:b/t",)
    assert legal(space_of(m, "custom"))[0].program == s.program


def test_an_annotation_may_name_a_rule_given_from_python() -> None:
    @ms.rule(name="mine")
    def mine(s: Schedule, block: ms.Handle, alternative: str) -> None:
        s.vectorize(s.loops(block)[0])

    program = ms.parse(TEXT.replace("RULE", "mine")).program("scale")
    (s,) = legal(automatic_space(program, GENERIC, named=[mine]))
    assert s.as_ms() == "schedule sketch for scale {\n    b.i.vectorize()\n}\n"


@pytest.mark.parametrize("name", ["unknown", "delt"])
def test_an_unknown_rule_is_an_error(name: str) -> None:
    program = ms.parse(TEXT.replace("RULE", name)).program("scale")
    with pytest.raises(MsError) as refused:
        automatic_space(program, GENERIC, module=module(name)).sample(0)
    assert refused.value.diagnostic.code == "MS274"
    assert ("dealt" in (refused.value.diagnostic.help or "")) is (name == "delt")


# ------------------------------------------------------------------ Python and packages
@ms.rule(alternatives=("none", "split"), when=lambda s, block: bool(s.is_reduction(block)))
def halve(s: Schedule, block: ms.Handle, alternative: str) -> None:
    """Splits the first loop of reductions."""
    if alternative == "split":
        loop = s.loops(block)[0]
        s.split(loop, s.perfect_tile(loop, n=2, name="t"))


def test_a_function_is_a_rule() -> None:
    assert isinstance(halve, Rule)
    found = legal(ms.automatic_space(space("mixed").program, GENERIC, [halve]))
    assert [s.addresses for s in found] == [("halve:mm",), ("halve:mm", "halve:mm/t")]
    renamed = World(rules=(msgspec.structs.replace(halve, name="dealt"),))
    (left, split) = legal(space_of(module(), "named", world=renamed))
    assert left.structure == (("dealt:mm", "none"),) and split.structure == (("dealt:mm", "split"),)


def test_a_rule_from_python_is_named_in_a_text() -> None:
    mine = msgspec.structs.replace(halve, name="delt")
    made = ms.parse(TEXT.replace("RULE", "dealt")).space("lost", target=GENERIC, rules=[mine])
    assert [s.addresses for s in legal(made)] == [("delt:mm",), ("delt:mm", "delt:mm/t")]


def test_a_rule_with_fewer_alternatives() -> None:
    (s,) = legal(ms.automatic_space(space("mixed").program, GENERIC, [Restricted(halve, ("split",))]))
    assert s.addresses == ("halve:mm/t",)
    assert not legal(ms.automatic_space(space("mixed").program, GENERIC, [Restricted(halve, ())]))[0].addresses


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    info = tmp_path / "my_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[mslang.rules]\ndelt = rules_of_mine:dealt\nnumber = rules_of_mine:NUMBER\n"
    )
    (tmp_path / "rules_of_mine.py").write_text(
        "import mslang as ms\nNUMBER = 5\n@ms.rule()\n"
        "def dealt(s, block, alternative):\n    s.split(s.loops(block)[0], [None, 4])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()
    yield
    monkeypatch.undo()
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()


def test_rules_of_packages_are_found_where_allowed(package: None) -> None:
    with pytest.raises(MsError) as refused:
        space("lost").sample(0)
    assert refused.value.diagnostic.code == "MS272"
    with ms.allowing("my-rules"):
        assert space("lost").sample(0).trace.as_ms().count("split") == 2
        with pytest.raises(MsError) as refused:
            program = ms.parse(TEXT.replace("RULE", "number")).program("scale")
            automatic_space(program, GENERIC).sample(0)
        assert refused.value.diagnostic.code == "MS212"


# ------------------------------------------------------------------ the rules of the sets
GEMM = """program p(A: f32[32, 32], B: f32[32, 32], out C: f32[32, 32]) {
    block mm[i: 32, j: 32 | k: 32] { C[i, j] += A[i, k] * B[k, j] }
}"""
BYTES = """program p(A: u8[32, 64], B: i8[64, 32], out C: i32[32, 32]) {
    block mm[i: 32, j: 32 | k: 64] { C[i, j] += i32(A[i, k]) * i32(B[k, j]) }
}"""
HALVES = """program p(A: f16[64, 64], B: f16[64, 64], out C: f32[64, 64]) {
    block mm[i: 64, j: 64 | k: 64] { C[i, j] += f32(A[i, k]) * f32(B[k, j]) }
}"""
SUMS = "program p(A: f32[4, 256], out S: f32[4]) { block s[i: 4 | j: 256] { S[i] += A[i, j] } }"
TALL = "program p(A: f32[64, 48, 32], out S: f32[64, 32]) { block s[i: 64, j: 32 | k: 48] { S[i, j] += A[i, k, j] } }"
SCALED = "program p(A: f32[64, 64], out B: f32[64, 64]) { block b[i: 64, j: 64] { B[i, j] = A[i, j] * 2.0 } }"
TURNED = "program p(A: f32[64, 64], out B: f32[64, 64]) { block b[i: 64, j: 64] { B[j, i] = A[i, j] + 1.0 } }"
STAGES = """program p(A: f32[64, 64], out C: f32[64, 64]) {
    alloc one: f32[]
    alloc T: f32[64, 64]
    block unit[] { one[] = 1.0 }
    block add[i: 64, j: 64] { T[i, j] = A[i, j] + one[] }
    block relu[i: 64, j: 64] { C[i, j] = max(T[i, j], 0.0) }
}"""
NORM = """program p(A: f32[16, 64], out B: f32[16, 64]) {
    alloc sum: f32[16]
    block total[i: 16 | j: 64] { sum[i] += A[i, j] * A[i, j] }
    block divide[i: 16, j: 64] { B[i, j] = A[i, j] / sum[i] }
}"""
ATTENTION = """program p(Q: f32[16, 32], K: f32[64, 32], V: f32[64, 32], out C: f32[16, 32]) {
    alloc s: f32[16, 64]
    alloc most: f32[16]
    alloc e: f32[16, 64]
    alloc sum: f32[16]
    alloc y: f32[16, 32]
    block score[i: 16, t: 64 | c: 32] { s[i, t] += Q[i, c] * K[t, c] }
    block largest[i: 16 | t: 64] { most[i] = max(most[i], s[i, t]) }
    block exponential[i: 16, t: 64] { e[i, t] = exp(s[i, t] - most[i]) }
    block total[i: 16 | t: 64] { sum[i] += e[i, t] }
    block value[i: 16, c: 32 | t: 64] { y[i, c] += e[i, t] * V[t, c] }
    block result[i: 16, c: 32] { C[i, c] = y[i, c] / sum[i] }
}"""
CALLS = {
    "custom": (
        'program p(A: f32[8], out B: f32[8]) { block b[i: 8] { attr "schedule_rule" = "wide" B[i] = A[i] } } '
        "rule wide(b: block) { b.loops()[0].vectorize() }",
        "std.rules.custom",
        AVX512,
    ),
    "inline_constants": (STAGES, "std.rules.inline_constants", AVX512),
    "auto_inline": (STAGES, "std.rules.auto_inline(ordered = false)", AVX512),
    "rows": (NORM, "std.rules.rows", AVX512),
    "matrix_tiles": (BYTES, "std.rules.matrix_tiles", AMX),
    "dot": (BYTES, "std.rules.dot", AMX),
    "tile": (GEMM, "std.rules.tile", AVX512),
    "add_rfactor": (SUMS, "std.rules.add_rfactor", AVX512),
    "multi_level": (GEMM, 'std.tiling.multi_level("SSRSRS")', AVX512),
    "compute_location": (STAGES, "std.rules.compute_location", AVX512),
    "transpose": (TURNED, "std.rules.transpose", AVX512),
    "parallelize_vectorize_unroll": (GEMM, "std.rules.parallelize_vectorize_unroll", AVX512),
    "stream": (SCALED, "by_hand >> std.rules.stream(least_bytes = 1024)", AVX512),
    "default_tiling": (GEMM, "std.rules.default_tiling", AVX512),
    "loop_blocks": (TALL, "std.rules.loop_blocks(only_reductions = true)", AVX512),
    "reduction_loop_blocks": (TALL, "std.rules.reduction_loop_blocks", AVX512),
    "online_attention": (ATTENTION, "std.rules.online_attention", SM_80),
    "multi_level_tiling_tensor_core": (HALVES, "std.rules.multi_level_tiling_tensor_core(max_innermost = 2)", SM_80),
    "gpu_tiling": (GEMM, "std.rules.gpu_tiling(max_innermost = 4)", SM_80),
    "cross_thread_reduction": (SUMS, "std.rules.cross_thread_reduction(thread_extents = [8, 32])", SM_80),
    "auto_bind": (SCALED, "by_hand >> std.rules.auto_bind(thread_extents = [16, 32], max_threadblocks = 8)", SM_80),
    "gpu_unroll": (GEMM, "std.rules.auto_bind >> std.rules.gpu_unroll(unroll_steps = [0, 64])", SM_80),
}
"""Of each rule of a set a program that it schedules, how a space calls it, and for which target."""


def rules_of(rule_set: RuleSet) -> list[Rule]:
    """The rules of a set, those that its postprocessors apply included."""
    after = [p.rules for p in rule_set.postprocessors if isinstance(p, AfterRules)]
    return [*rule_set.rules, *chain.from_iterable(after)]


def test_every_rule_of_a_set_has_a_name_of_its_own_in_the_library() -> None:
    known = {n.name for m in ("std.rules", "std.tiling") for n in MODULES[m].values() if n.role == "rule"}
    for rule_set in SETS.values():
        names = [r.name for r in rules_of(rule_set)]
        assert len(names) == len(set(names)) and names[0] == "custom"
        assert set(names) <= known & set(CALLS)


@pytest.mark.parametrize(
    ("text", "call", "machine"),
    [
        (
            "program p(X: u8[4, 8], W: i8[2, 2, 16, 4], out Y: i32[4, 2, 16]) { block b[i: 4, o: 2, j: 16 | f: 2, q: 4]"
            " { Y[i, o, j] += i32(X[i, f * 4 + q]) * i32(W[o, f, j, q]) } }",
            'std.tiling.multi_level("SSRSRS", intrin = "std.cpu.dot.u8s8_vnni")',
            AVX512,
        ),
        (
            "program p(X: i8[32, 64], W: i8[32, 64], out Y: i32[32, 32]) { block b[i: 32, j: 32 | k: 64]"
            " { Y[i, j] += i32(X[i, k]) * i32(W[j, k]) } }",
            'std.rules.gpu_tiling(intrin = "std.cuda.dot.dp4a_s8s8s32")',
            SM_80,
        ),
    ],
)
def test_rules_for_tiling_take_an_intrinsic_by_its_name(text: str, call: str, machine: Target) -> None:
    def made(call: str) -> Space:
        return space_of(load("p.ms", f"{text} space s for p = {call}"), "s", world=World(machine=machine))

    found = list(made(call).sketches())
    assert len(found) == 3 and all("tensorize" in {i.op for i in s.trace.instructions} for s in found)
    for wrong in ("std.lost.dot", "lost"):
        with pytest.raises(MsError, match=f"MS101.*there is no intrinsic `{re.escape(wrong)}`"):
            made(re.sub(r'intrin = "[^"]*"', f'intrin = "{wrong}"', call)).sample(0)
    with pytest.raises(MsError, match=r"MS101.*there is no intrinsic `3`|MS203.*Expected `str`, got `int`"):
        made(re.sub(r'intrin = "[^"]*"', "intrin = 3", call)).sample(0)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.one_in(2)
def test_every_rule_of_a_set_is_applied_by_its_name(name: str) -> None:
    program, call, machine = CALLS[name]
    assert re.search(rf"\bstd\.(rules|tiling)\.{name}\b", call)
    by_hand = "schedule by_hand for p { let outer, lanes = b.j.split([_, 16]) lanes.vectorize() }"
    text = f"{program} {by_hand if 'by_hand' in call else ''} space s for p = {call}"
    made = space_of(load("p.ms", text), "s", world=World(machine=machine))
    found = legal(made)
    assert found and any(s.trace.instructions for s in found)
    decided = {a.partition("/")[0].partition(":")[0] for s in found for a in (*dict(s.structure), *s.addresses)}
    assert not decided or name in decided


@pytest.mark.parametrize(
    ("call", "machine", "message"),
    [
        ("std.rules.auto_bind", AVX512, "the rule `auto_bind` does not serve `avx512`"),
        ("std.rules.tile", SM_80, "the rule `tile` does not serve `sm_80`"),
    ],
)
def test_a_rule_for_another_kind_of_target_is_refused(call: str, machine: Target, message: str) -> None:
    made = space_of(load("p.ms", f"{SCALED} space s for p = {call}"), "s", world=World(machine=machine))
    with pytest.raises(MsError) as refused:
        made.sample(0)
    found = refused.value.diagnostic
    assert found.code == "MS273" and found.message == message
    assert found.why is not None and f"`{machine.name}` is a {machine.kind} target" in found.why


@pytest.mark.parametrize("rule", ["auto_bind", "cross_thread_reduction"])
def test_without_sizes_of_thread_blocks_nothing_is_drawn(rule: str) -> None:
    text = f"{SUMS} space s for p on sm_80 = std.rules.{rule}(thread_extents = [])"
    (sketch,) = space_of(load("p.ms", f"use std.cuda.{{sm_80}} {text}"), "s").sketches()
    assert not sketch.open
