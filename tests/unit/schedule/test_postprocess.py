"""Postprocessors: they rewrite, state conditions that arrays check, or refuse a structure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import mslang as ms
from mslang import extensions
from mslang.diagnostics import MsError, ScheduleError, problem
from mslang.ir.expr import Binary, Const, Symbol
from mslang.ir.find import blocks_of
from mslang.lower.gpu import lower
from mslang.schedule.interpret import Interpreter, World
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.rules.gpu.auto_bind import AutoBind
from mslang.schedule.rules.gpu.finish import UnboundBlocks
from mslang.schedule.rules.postprocess import ReductionBlocks
from mslang.schedule.space import Illegal, Space
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.target.description import GENERIC, SM_80, Target

SCALED = "program scaled(A: f32[4096], out B: f32[4096]) { block b[i: 4096] { B[i] = A[i] * 2.0 } }"
DYNAMIC = "program sums[M: dyn(1..4096)](A: f32[M, 64], out B: f32[M]) { block b[i: M | j: 64] { B[i] += A[i, j] } }"


class FewThreads(msgspec.Struct, frozen=True):
    """States a condition on the number of threads that was drawn."""

    name: str = "few_threads"

    def apply(self, it: Interpreter) -> None:
        threads = it.session.draws.drawn("auto_bind:b/threads")
        assert isinstance(threads, Symbol)
        it.session.require(Binary("<=", threads, Const(128)), "more threads than wanted")


class Never(msgspec.Struct, frozen=True):
    """Refuses every program."""

    name: str = "never"

    def apply(self, it: Interpreter) -> None:
        raise ScheduleError(problem("MS260", "not this one"))


def test_a_condition_of_ones_own_is_checked_on_arrays() -> None:
    (sketch,) = automatic_space(parse_program(SCALED), SM_80, (AutoBind(),), (FewThreads(),)).sketches()
    many = sketch.batch()
    drawn = many.draw(256, 1)
    kept = {drawn.row(int(k))["auto_bind:b/threads"] for k in many.valid(drawn).nonzero()[0]}
    assert kept == {32, 64, 128}
    assert set(many.violations(drawn)) == {"more threads than wanted"}


def test_a_refusal_rejects_the_structure_with_its_reason() -> None:
    (found,) = automatic_space(parse_program(SCALED), SM_80, (AutoBind(),), (Never(),)).structures()
    assert isinstance(found, Illegal)
    assert found.diagnostic.message == "not this one"


def test_what_no_rule_binds_is_bound_without_drawing() -> None:
    (sketch,) = automatic_space(parse_program(SCALED), SM_80, (), (UnboundBlocks(),)).sketches()
    assert sketch.decisions == ()
    assert len(lower(sketch.program, SM_80).functions) == 1


def test_inits_become_blocks_of_their_own() -> None:
    (sketch,) = automatic_space(parse_program(DYNAMIC), SM_80, (), (ReductionBlocks(),)).sketches()
    assert len(blocks_of(sketch.program.body)) == 2


def test_sizes_known_only_at_the_call_reject_nothing() -> None:
    structures = list(automatic_space(parse_program(DYNAMIC), SM_80).structures())
    assert structures
    assert not [s for s in structures if isinstance(s, Illegal)]
    for s in structures:
        assert not isinstance(s, Illegal)
        lower(s.instantiate(s.batch().draw(1, 1).row(0)) if s.decisions else s.program, SM_80)


# ------------------------------------------------------------------ of packages
SPACES = f"""{SCALED}
schedule by_hand for scaled {{ b.i.parallel() }}
space cpu for scaled = std.cpu.auto
space quick for scaled = std.cpu.quick
space cuda for scaled = std.cuda.space
"""


def written(name: str, target: Target) -> Callable[[], Space]:
    """A space of the text."""
    return lambda: space_of(load("s.ms", SPACES), name, world=World(machine=target))


WAYS: dict[str, Callable[[], Space]] = {
    "automatic": lambda: automatic_space(parse_program(SCALED), GENERIC),
    "automatic on a GPU": lambda: automatic_space(parse_program(SCALED), SM_80),
    "own rules": lambda: automatic_space(parse_program(SCALED), GENERIC, ms.rules_for(GENERIC)),
    "for a target without rules": lambda: automatic_space(parse_program(SCALED), Target("n", "npu"), [AutoBind()]),
    **{
        f"--rules {name}": lambda name=name, target=target: space_named(parse_program(SCALED), target, name)
        for name, target in {"cpu": GENERIC, "quick": GENERIC, "cuda": SM_80, "cuda_tensor_core": SM_80}.items()
    },
    "std.cpu.auto": written("cpu", GENERIC),
    "std.cpu.quick": written("quick", GENERIC),
    "std.cuda.space": written("cuda", SM_80),
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    info = tmp_path / "house-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mslang.postprocessors]\nnever = house_rules:never\n")
    (tmp_path / "house_rules.py").write_text(f"from {__name__} import Never\n\nnever, number = Never(), 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()
    yield
    monkeypatch.undo()
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()


@pytest.mark.parametrize("way", list(WAYS))
def test_a_packages_postprocessor_is_applied_in_every_automatic_space(package: None, way: str) -> None:
    assert list(WAYS[way]().sketches())
    with ms.allowing("house"):
        found = list(WAYS[way]().structures())
    assert found and all(isinstance(x, Illegal) and x.diagnostic.message == "not this one" for x in found)


def test_a_packages_postprocessor_is_not_applied_elsewhere(package: None) -> None:
    with ms.allowing("house"):
        assert list(written("by_hand", GENERIC)().sketches())
        assert list(automatic_space(parse_program(SCALED), GENERIC, postprocessors=()).sketches())


def test_a_broken_postprocessor_of_a_package_is_an_error(package: None, tmp_path: Path) -> None:
    (tmp_path / "house-1.0.dist-info" / "entry_points.txt").write_text(
        "[mslang.postprocessors]\nx = house_rules:number\n"
    )
    with ms.allowing("house"), pytest.raises(MsError) as refused:
        automatic_space(parse_program(SCALED), GENERIC, ms.rules_for(GENERIC))
    assert refused.value.diagnostic.code == "MS212"
