"""Points of a space: numbered, permuted, drawn, allocated, and what rejects them."""

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.schedule import distribution
from mslang.schedule.sketch import Sketch
from mslang.search import leaves as leaves_module
from mslang.search.constraints import constraints_of
from mslang.search.leaves import Leaf, Leaves, allocate
from mslang.search.neighbours import neighbours_of
from mslang.search.numbering import groups, numbering_of
from mslang.search.permutation import Permutation
from mslang.search.roles import Role
from mslang.search.strategy import Rejections
from mslang.target.description import GENERIC
from tests.unit.search.guarded import space


def sketches(name: str) -> list[Sketch]:
    return list(space(name).sketches())


def leaf_of(sketch: Sketch, seed: int = 0) -> Leaf:
    return Leaf(0, sketch, GENERIC, seed, Rejections())


# ------------------------------------------------------------------ permutations
@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 1000, 4097, 30_011])
def test_a_permutation_is_a_bijection(count: int) -> None:
    numbers = np.arange(count)
    orders = [Permutation(count, seed)(numbers).tolist() for seed in (1, 2)]
    assert all(sorted(order) == list(range(count)) for order in orders)
    if count > 5:
        assert orders[0] != orders[1] and orders[0] != list(range(count))


def test_a_permutation_of_many_numbers_scatters_them() -> None:
    count = (1 << 60) + 12345
    found = Permutation(count, 7)(np.arange(20_000))
    assert len(np.unique(found)) == 20_000 and found.min() >= 0 and found.max() < count
    # Eight equal ranges hold an eighth each, within five standard deviations.
    share = np.bincount(found // (count // 8 + 1), minlength=8)
    assert np.abs(share - 2500).max() < 5 * (20_000 * 7 / 64) ** 0.5


def test_a_permutation_has_limits() -> None:
    assert len(Permutation(0, 1)(np.arange(0))) == 0
    with pytest.raises(ValueError, match="no permutation of"):
        Permutation(1 << 62, 1)


# ------------------------------------------------------------------ numbers
def vectors(sketch: Sketch) -> Counter[tuple[object, ...]]:
    return Counter(tuple(v.values()) for v in sketch._vectors())


@pytest.mark.parametrize("name", ["guarded", "large", "many", "illegal"])
def test_every_vector_has_one_number(name: str) -> None:
    sketch = sketches(name)[0]
    numbering = numbering_of(sketch.decisions)
    assert numbering is not None
    rows = numbering.rows(np.arange(numbering.count)) if numbering.count < 10_000 else None
    if rows is None:
        # Too many to be listed one by one: as many as there are, all different, all members.
        assert numbering.count == sketch.count(10**9)
        rows = numbering.rows(Permutation(numbering.count, 3)(np.arange(20_000)))
        assert len(np.unique(sketch.batch().keys(rows))) == 20_000 and sketch.batch().members(rows).all()
        return
    assert Counter(tuple(rows.row(k).values()) for k in range(len(rows))) == vectors(sketch)
    assert set(vectors(sketch).values()) == {1}


def test_decisions_that_depend_on_each_other_are_one_group() -> None:
    sketch = sketches("guarded")[0]
    assert [[d.address for d in g] for g in groups(sketch.decisions)] == [["tj"], ["ti", "inner"], ["w"]]
    numbering = numbering_of(sketch.decisions)
    assert numbering is not None and numbering.strata is None and numbering.count == sum(vectors(sketch).values())


# ------------------------------------------------------------------ neighbours
@pytest.mark.parametrize("name", ["guarded", "large"])
def test_tables_of_neighbours_are_those_of_single_values(name: str) -> None:
    tables = 0
    for d in sketches(name)[0].decisions:
        table = neighbours_of(d)
        if table is None:
            assert d.address == "inner"
            continue
        tables += 1
        rows = [tuple(v) for v in table.values.tolist()]
        assert table.find(table.values).tolist() == list(range(len(rows)))
        for k, row in enumerate(rows):
            found = {rows[o] for o in table.others[table.starts[k] : table.starts[k + 1]]}
            value = row if len(row) > 1 else row[0]
            wanted = {v if isinstance(v, tuple) else (v,) for v in distribution.neighbours(d.domain, value, {})}
            assert found == wanted, (d.address, row)
    assert tables >= 3


# ------------------------------------------------------------------ constraints
def test_guards_and_requirements_reject() -> None:
    for sketch in sketches("guarded"):
        batch = sketch.batch().draw(500, seed=1)
        constraints = constraints_of(sketch, GENERIC)
        valid = constraints.valid(batch)
        wanted = [sketch.violation(batch.row(k)) is None for k in range(len(batch))]
        assert valid.tolist() == wanted and not all(wanted)
        rejections = constraints.rejections(batch)
        assert sum(rejections.values()) == wanted.count(False)
        assert {"another structure", "too wide", "uneven"} & rejections.keys()


def test_limits_of_the_machine_reject() -> None:
    sketch = sketches("large")[0]
    small = replace(GENERIC, extra=(("max_code", 20),))
    batch = sketch.batch().draw(2000, seed=1)
    constraints = constraints_of(sketch, small)
    rejected = {why: n for why, n in constraints.rejections(batch).items() if "instructions" in why}
    assert len(rejected) == 1 and 0 < sum(rejected.values()) < 2000
    assert all(" needs more than 20 instructions" in why for why in rejected)
    plain = constraints_of(sketch, GENERIC)
    assert plain.valid(batch).sum() > constraints.valid(batch).sum()


def test_a_value_outside_of_its_domain_is_rejected() -> None:
    sketch = sketches("large")[0]
    batch = sketch.batch().draw(10, seed=1)
    batch.array[3, 0] += 1
    constraints = constraints_of(sketch, GENERIC)
    assert not constraints.valid(batch)[3]
    assert constraints.rejections(batch)["a value that is not in its domain"] == 1


# ------------------------------------------------------------------ drawing
@pytest.mark.parametrize("name", ["guarded", "large"])
@pytest.mark.parametrize("evenly", [True, False])
def test_draws_are_valid_and_distinct_and_continue(name: str, evenly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaves_module, "EVENLY", 1 << 16 if evenly else 0)
    for sketch in sketches(name):
        leaf, again = leaf_of(sketch, 5), leaf_of(sketch, 5)
        parts = [leaf.draw(60) for _ in range(5)]
        rows = [tuple(p.row(k).values()) for p in parts for k in range(len(p))]
        assert len(rows) == len(set(rows)) >= 30
        assert all(leaf.constraints.valid(p).all() for p in parts)
        same = again.draw(60)
        assert [tuple(same.row(k).values()) for k in range(len(same))] == rows[: len(same)]


@pytest.mark.parametrize("evenly", [True, False])
def test_after_a_restart_the_same_points_are_drawn_and_counted_once(
    evenly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves_module, "EVENLY", 1 << 16 if evenly else 0)
    rejections = Rejections()
    leaf = Leaf(0, sketches("large")[0], GENERIC, 5, rejections)
    first = leaf.draw(300)
    counted = (rejections.constraint.copy(), rejections.duplicates)
    leaf.restart()
    assert np.array_equal(leaf.draw(300).array, first.array)
    assert (rejections.constraint, rejections.duplicates) == counted


@pytest.mark.parametrize(
    ("name", "evenly"), [("small", 1 << 16), ("guarded", 1 << 16), ("numbers", 0), ("weighted", 0)]
)
@pytest.mark.parametrize("n", [7, 100])
def test_no_valid_point_is_lost_between_draws(name: str, evenly: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaves_module, "EVENLY", evenly)
    for sketch in sketches(name):
        leaf = leaf_of(sketch, 3)
        for _ in range(2):
            rows: list[tuple[object, ...]] = []
            while len(batch := leaf.draw(n)):
                rows += (tuple(batch.row(k).values()) for k in range(len(batch)))
            assert Counter(rows) == Counter(tuple(v.values()) for v in sketch.points())
            leaf.restart()


@pytest.mark.parametrize("name", ["small", "weighted"])
def test_strata_are_as_probable_as_in_random_draws(name: str) -> None:
    for sketch in sketches(name):
        leaf, many = leaf_of(sketch), sketch.batch()
        assert leaf.numbering is not None and leaf.numbering.strata is not None
        strata = leaf.numbering.strata
        stratum = np.repeat(np.arange(len(strata)), strata.sizes)
        places = np.concatenate([np.arange(n) for n in strata.sizes])
        keys = many.keys(leaf.numbering.rows(strata.numbers(stratum, places)))
        assert len(strata) >= 6 and len(np.unique(keys)) == leaf.count
        drawn = many.keys(many.draw(40_000, seed=3))
        drawn = drawn[np.isin(drawn, keys)]
        order = np.argsort(keys)
        found = np.bincount(stratum[order[np.searchsorted(keys[order], drawn)]], minlength=len(strata))
        share = strata.weights / strata.weights.sum()
        assert (np.abs(found - len(drawn) * share) < 5 * (len(drawn) * share * (1 - share)) ** 0.5).all()


def test_points_of_weighted_decisions_are_drawn_by_weight_within_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As random draws of which those outside of the bounds are rejected, but that nothing is rejected."""
    monkeypatch.setattr(leaves_module, "EVENLY", 0)
    rejections = Rejections()
    leaf = Leaf(0, sketches("weighted")[0], GENERIC, 5, rejections)
    points = list(leaf.sketch.points())
    weights = {"height": {1: 1, 2: 3, 4: 4, 8: 2}, "jump": {1: 5, 2: 1, 4: 1}}
    pairs = [(p["height"], p["jump"]) for p in points]
    share = Counter({k: n * weights["height"][k[0]] * weights["jump"][k[1]] for k, n in Counter(pairs).items()})
    n = 80
    batch = leaf.draw(n)
    drawn = Counter((batch.row(k)["height"], batch.row(k)["jump"]) for k in range(n))
    assert drawn.keys() <= share.keys() and len(drawn) > 6
    assert all(abs(drawn[k] - n * w / share.total()) < 3 for k, w in share.items())
    assert not rejections.constraint and not rejections.duplicates


@pytest.mark.parametrize("evenly", [1 << 16, 0])
def test_all_points_of_a_structure(evenly: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaves_module, "EVENLY", evenly)
    for sketch in sketches("small"):
        whole = leaf_of(sketch).all()
        found = Counter(tuple(whole.row(k).values()) for k in range(len(whole)))
        assert found == Counter(tuple(v.values()) for v in sketch.points()) and set(found.values()) <= {1}


def test_draws_are_allocated_by_count() -> None:
    assert allocate(100, [10**6, 3 * 10**6]) == [38, 62]
    assert allocate(100, [5]) == [5] and allocate(10, [0, 0]) == [0, 0]
    for counts in ([7, 10**6], [10**12, 10**6, 40], [1 << 40, 1 << 61]):
        shares = allocate(999, counts)
        assert sum(shares) == 999 and all(s <= c for s, c in zip(shares, counts, strict=True))
        assert sorted(shares) == [s for _, s in sorted(zip(counts, shares, strict=True))]
        assert all(s >= min(c, 999 // (2 * len(counts))) for s, c in zip(shares, counts, strict=True))


def test_few_structures_are_enumerated_and_of_many_a_sample_is_taken() -> None:
    few = Leaves(space("large"), GENERIC, 0, Rejections())
    assert few.complete and len(few) == 3 and few.points == sum(leaf.count or 0 for leaf in few.all())
    many = Leaves(space("many"), GENERIC, 0, Rejections(), few=10, sample=10)
    assert not many.complete and len(many) == 10
    assert len({leaf.sketch.structure for leaf in many.all()}) == 10
    before = [leaf.sketch.structure for leaf in many.all()]
    many.grow(5)
    assert len(many) == 15 and [leaf.sketch.structure for leaf in many.all()][:10] == before
    again = Leaves(space("many"), GENERIC, 0, Rejections(), few=10, sample=10)
    assert [leaf.sketch.structure for leaf in again.all()] == before
    many.grow(400)
    assert len(many) <= 81 and len(many) > 60


def test_illegal_structures_are_counted() -> None:
    rejections = Rejections()
    found = Leaves(space("illegal"), GENERIC, 0, rejections)
    assert len(found) == 1 and len(rejections.illegal) == 1
    assert next(iter(rejections.illegal)).startswith("with how = never no draw is legal: ")


def test_a_rare_legal_structure_is_found() -> None:
    """One of 81: what is refused on the way is counted, each case once."""
    for seed in range(3):
        rejections = Rejections()
        found = Leaves(space("rare"), GENERIC, seed, rejections)
        assert not found.complete and len(found) == 1
        assert set(rejections.illegal.values()) == {1} and len(rejections.illegal) >= 17


def test_roles_are_read_off_the_program() -> None:
    roles = leaf_of(sketches("numbers")[0]).roles
    assert roles == {Role.TILE: ("registers", "tk"), Role.CATEGORICAL: ("flag",)}
    roles = leaf_of(sketches("large")[0]).roles
    assert roles == {Role.TILE: ("ti", "tj", "tk"), Role.UNROLL: ("steps",)}
    roles = leaf_of(sketches("guarded")[0]).roles
    assert roles[Role.TILE] == ("ti", "tj", "inner") and roles[Role.CATEGORICAL] == ("w",)
    assert leaf_of(sketches("jobs")[0]).roles == {Role.PARALLEL: ("jobs",), Role.TILE: ("strip",)}
    assert leaf_of(sketches("bound")[0]).roles == {Role.THREADS: ("threads",), Role.TILE: ("each",)}
