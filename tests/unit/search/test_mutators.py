"""Mutation and crossover: children are members of their domains, and differ as their mutator says."""

from collections import Counter

import numpy as np
import pytest

from mslang.ir.expr import PerfectTile
from mslang.schedule import distribution
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.batch.random_words import Stream
from mslang.search.around import around
from mslang.search.crossover import crossed
from mslang.search.leaves import Leaf, Leaves
from mslang.search.mutators import MUTATORS, MutateDecision, MutateStructure, carried, mutate, nearest
from mslang.search.roles import Role
from mslang.search.strategy import Rejections
from mslang.target.description import GENERIC
from tests.unit.search.guarded import space


def leaves_of(name: str) -> Leaves:
    return Leaves(space(name), GENERIC, 0, Rejections())


def stream(n: int, seed: int = 1) -> Stream:
    return Stream(seed, "test", np.arange(n, dtype=np.uint64))


def changed(leaf: Leaf, before: DecisionBatch, after: DecisionBatch) -> list[set[str]]:
    """The addresses of the decisions that differ, of each candidate."""
    return [
        {a for a in (d.address for d in leaf.sketch.decisions) if before.row(k)[a] != after.row(k)[a]}
        for k in range(len(before))
    ]


@pytest.mark.parametrize("name", ["guarded", "large"])
def test_mutants_are_members_of_their_domains(name: str) -> None:
    leaves = leaves_of(name)
    for leaf in leaves.all():
        batch = leaf.draw(300)
        parts = mutate(MUTATORS, leaf, leaves, batch, stream(len(batch)))
        assert sum(len(b) for _, b in parts) == len(batch)
        for other, mutants in parts:
            assert other.sketch.batch().members(mutants).all()
            for k in range(0, len(mutants), 17):
                why = other.sketch.violation(mutants.row(k))
                assert why is None or (not why.endswith("domain") and ": " not in why), why


def test_a_tile_moves_one_prime_within_the_limit() -> None:
    leaves = leaves_of("large")
    leaf = leaves[0]
    batch = leaf.draw(200)
    ((_, mutants),) = MutateDecision("tile size", 1.0, Role.TILE).mutate(leaf, leaves, batch, stream(len(batch)))
    differing = changed(leaf, batch, mutants)
    assert all(len(d) == 1 for d in differing) and set.union(*differing) == {"ti", "tj", "tk"}
    domains = {d.address: d.domain for d in leaf.sketch.decisions}
    for k, (address,) in enumerate(differing):
        before, after, domain = batch.row(k)[address], mutants.row(k)[address], domains[address]
        assert after in set(distribution.neighbours(domain, before, {}))
        assert isinstance(domain, PerfectTile) and isinstance(after, tuple)
        assert domain.max_inner is None or (after[-1] or 0) <= domain.max_inner


def test_a_number_is_drawn_again_and_is_another_one() -> None:
    leaves = leaves_of("large")
    batch = leaves[0].draw(200)
    unroll = MutateDecision("unroll", 1.0, Role.UNROLL, anywhere=True)
    ((_, mutants),) = unroll.mutate(leaves[0], leaves, batch, stream(len(batch)))
    assert all(d == {"steps"} for d in changed(leaves[0], batch, mutants))
    assert set(mutants.columns()["steps"].tolist()) == {0, 16, 64}
    assert not MutateDecision("threads", 1.0, Role.THREADS).applies(leaves[0], leaves)


def test_a_tile_that_depends_on_another_follows_it() -> None:
    leaves = leaves_of("guarded")
    leaf = leaves[0]
    batch = leaf.draw(100)
    ((_, mutants),) = MutateDecision("tile size", 1.0, Role.TILE).mutate(leaf, leaves, batch, stream(len(batch)))
    followed = 0
    for k, differing in enumerate(changed(leaf, batch, mutants)):
        values = mutants.row(k)
        ti, inner = values["ti"], values["inner"]
        assert isinstance(ti, tuple) and isinstance(inner, tuple)
        assert inner[0] * inner[1] == ti[1]  # type: ignore[operator]
        followed += differing >= {"ti", "inner"}
    assert followed > 5


def test_what_has_more_values_changes_more_often() -> None:
    leaves = leaves_of("numbers")
    batch = leaves[0].draw(48)
    batch = batch[np.arange(4800) % len(batch)]
    ((_, mutants),) = MutateDecision("tile size", 1.0, Role.TILE).mutate(leaves[0], leaves, batch, stream(len(batch)))
    count = Counter(a for d in changed(leaves[0], batch, mutants) for a in d)
    bits = leaves[0].bits
    assert bits["registers"] == np.log2(13) and bits["tk"] == np.log2(3)
    assert count.total() == 4800
    assert abs(count["registers"] / 4800 - bits["registers"] / (bits["registers"] + bits["tk"])) < 0.03


def test_a_number_from_a_list_may_be_replaced_by_any_other() -> None:
    """Rows and vectors of a register tile are one number: 44 and 84 differ in rows only, and are no neighbours."""
    leaves = leaves_of("numbers")
    leaf = leaves[0]
    row = leaf.sketch.batch().of([{"registers": 44, "tk": 1, "flag": 0}])
    batch = row[np.zeros(2000, np.int64)]
    ((_, mutants),) = MutateDecision("tile size", 1.0, Role.TILE).mutate(leaf, leaves, batch, stream(2000))
    found = Counter(mutants.columns()["registers"].tolist())
    del found[44]
    assert len(found) == 11 and found[42] + found[81] > found.total() / 2
    ((_, near),) = around(leaf, row, leaves, seed=1)
    assert {84, 11, 42} < set(near.columns()["registers"].tolist()) and len(near) == 11 + 1 + 1


def test_a_structure_gives_way_to_its_neighbours_which_keep_decisions() -> None:
    leaves = leaves_of("large")
    leaf = leaves[0]
    batch = leaf.draw(60)
    assert {x.number for x in nearest(leaf, leaves)} == {1, 2}
    parts = MutateStructure("structure", 1.0).mutate(leaf, leaves, batch, stream(len(batch)))
    assert {x.number for x, _ in parts} == {1, 2} and sum(len(b) for _, b in parts) == len(batch)
    for other, moved in parts:
        rows = {tuple(batch.row(k).values()) for k in range(len(batch))}
        assert {tuple(moved.row(k).values()) for k in range(len(moved))} <= rows
        assert other.sketch.structure != leaf.sketch.structure


def test_decisions_that_only_one_structure_has_are_drawn() -> None:
    guarded, large = leaves_of("guarded")[0], leaves_of("large")[0]
    batch = guarded.draw(50)
    moved = carried(guarded, large, batch, seed=3)
    assert large.sketch.batch().members(moved).all()
    # No decision has the same domain in both: all of them are drawn.
    assert len(np.unique(large.sketch.batch().keys(moved))) > 40


@pytest.mark.parametrize("name", ["guarded", "large"])
def test_children_take_each_decision_from_one_of_their_parents(name: str) -> None:
    for leaf in leaves_of(name).all():
        batch = leaf.draw(80)
        mothers, fathers = batch[: len(batch) // 2], batch[len(batch) // 2 : len(batch) // 2 * 2]
        children = crossed(leaf, mothers, fathers, stream(len(mothers)))
        assert leaf.sketch.batch().members(children).all()
        mixed = 0
        for k in range(len(children)):
            child, mother, father = children.row(k), mothers.row(k), fathers.row(k)
            assert all(child[a] in (mother[a], father[a]) for a in child)
            mixed += child not in (mother, father)
        assert mixed or len(children) < 8


@pytest.mark.parametrize("name", ["guarded", "large"])
def test_the_neighbourhood_is_valid_and_one_step_away(name: str) -> None:
    leaves = leaves_of(name)
    leaf = leaves[0]
    row = leaf.draw(1)
    values = row.row(0)
    parts = around(leaf, row, leaves, seed=1)
    own = [batch.row(k) for x, batch in parts if x is leaf for k in range(len(batch))]
    assert own and all(leaf.sketch.violation(v) is None for v in own)
    for v in own:
        differing = {a for a in v if v[a] != values[a]}
        assert len(differing) == 1 or differing == {"ti", "inner"}
    assert all(x.constraints.valid(batch).all() for x, batch in parts)


def test_mutation_depends_on_seed_and_row_only() -> None:
    leaves = leaves_of("large")
    batch = leaves[0].draw(64)
    first, again, other = (
        [b.array.tolist() for _, b in mutate(MUTATORS, leaves[0], leaves, batch, stream(64, seed))]
        for seed in (1, 1, 2)
    )
    assert first == again != other
