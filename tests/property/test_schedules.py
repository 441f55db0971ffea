"""Structure never depends on a decision's value, and a candidate is its sketch with values put in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from mslang.ir.expr import Const, Domain
from mslang.ir.print import print_program
from mslang.schedule.decisions import Drawing
from mslang.schedule.draws import Draws
from mslang.schedule.instruction import Value
from mslang.schedule.replay import replay, run_trace, space_of_text
from mslang.schedule.sketch import skeleton
from mslang.schedule.space import Candidate, Space
from mslang.schedule.strategies import space_of
from mslang.schedule.trace import Trace
from mslang.sema.modules import load
from mslang.syntax import tree
from tests.unit.schedule.samples import space

ROOT = Path(__file__).parents[2]
LIBRARY = sorted((ROOT / "stdlib" / "workloads").glob("*.ms"))


def sampled(path: Path) -> Iterator[tuple[Path, str]]:
    """The schedules of a file that sample anything."""
    for name, item in load(str(path)).schedules.items():
        if item.body is not None and any(isinstance(s, tree.Sample) for s in item.body.statements):
            yield path, name


SCHEDULES = [pytest.param(p, n, id=f"{p.stem}.{n}") for path in LIBRARY for p, n in sampled(path)]


def candidates(made: Space, draws: int) -> Iterator[Candidate]:
    """The valid ones among so many draws."""
    for seed in range(draws):
        found = made.attempt(seed)
        if isinstance(found, Candidate):
            yield found


class ConcreteDraws(Draws):
    """Draws that give numbers where the real ones give symbols."""

    def number(self, address: str, domain: Domain, given: Value | None) -> object:
        symbols = super().number(address, domain, given)
        value = self.values[address]
        if isinstance(symbols, tuple):
            assert isinstance(value, tuple)
            return tuple(None if x is None else Const(x) for x in value)
        assert isinstance(value, int)
        return Const(value)


def check_space(made: Space, draws: int, every: int) -> int:
    """Check draws: each by substitution, and every so-many-th by fresh replays of all kinds."""
    seen = 0
    for k, c in enumerate(candidates(made, draws)):
        seen += 1
        fresh = replay(made.program, c.trace, strict=True)
        assert fresh.program == c.program
        assert fresh.sketch.program == c.sketch.program
        if k % every == 0:
            assert Trace.from_json(c.trace.as_json()) == c.trace
            flat = space_of_text(c.trace.as_ms("flat"), made.program).sample(0)
            assert print_program(flat.program) == print_program(c.program)
    return seen


@pytest.mark.parametrize("name", ["tiled", "helpers", "free", "either"])
def test_substitution_is_replay(name: str):
    assert check_space(space(name), 220, 20) >= 100


@pytest.mark.parametrize(("path", "name"), SCHEDULES)
def test_substitution_is_replay_in_the_library(path: Path, name: str):
    made = space_of(load(str(path)), name)
    assert check_space(made, 30, 10) >= 1


@pytest.mark.campaign
@pytest.mark.parametrize(("path", "name"), SCHEDULES)
def test_a_thousand_draws_of_each_schedule_in_the_library(path: Path, name: str):
    check_space(space_of(load(str(path)), name), 1000, 50)


def concrete_skeleton(made: Space, c: Candidate, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """The shape of the program when the trace is replayed with numbers in place of symbols."""
    with monkeypatch.context() as patch:
        patch.setattr("mslang.schedule.session.Draws", ConcreteDraws)
        trace = c.trace
        kept = tuple(i for i in trace.instructions if i.op != "require")
        unchecked = replace(trace, instructions=kept)
        session = run_trace(made.program, unchecked, Drawing(0, pins=trace.decisions))
    return skeleton(session.program)


UNIT: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "tiled": {"ti": (1, 1, 64, 1), "tj": (48, 1, 1, 1), "tk": (1, 32)},
    "helpers": {"a/t": (1, 64), "b/t": (48, 1, 1)},
}
"""Decisions with factors of 1 and of the whole extent."""


@pytest.mark.parametrize("name", ["tiled", "helpers"])
def test_numbers_in_place_of_symbols_give_the_same_structure(name: str, monkeypatch: pytest.MonkeyPatch):
    made = space(name)
    for c in (*candidates(made, 25), made.sample(0, dict(UNIT[name]))):
        assert concrete_skeleton(made, c, monkeypatch) == skeleton(c.program)


def test_a_factor_of_one_changes_no_structure():
    made = space("tiled")
    shapes = {
        skeleton(made.sample(0, {"order": "straight", "ti": ti, "tj": (1, 1, 48, 1)}).program)
        for ti in [(64, 1, 1, 1), (1, 64, 1, 1), (1, 1, 64, 1), (2, 4, 8, 1), (16, 1, 1, 4)]
    }
    assert len(shapes) == 1
