"""Rules by name: in spaces of `.ms`, by annotation, as Python functions, from packages; sets by name."""

from __future__ import annotations

from collections.abc import Iterator
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
from mslang.schedule.rules.restricted import Restricted
from mslang.schedule.rules.rule import Rule
from mslang.schedule.rules.sets import SETS
from mslang.schedule.schedule import Schedule
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Space
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import AVX512, GENERIC
from mslang.tune.equivalence import difference

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
        assert difference(space.program, c.program, 1e-4, 1e-5, k) is None
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
    for kind in RULES:
        rule = kind()
        for p in LIBRARY[f"std.rules.{rule.name}"].params:
            assert not isinstance(p.default, Required) and getattr(rule, p.name) == p.default


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


def test_every_set_has_a_name_for_each_of_its_rules() -> None:
    for name in SETS:
        names = [r.name for r in SETS[name].rules]
        assert len(names) == len(set(names)) and names[0] == "custom"
