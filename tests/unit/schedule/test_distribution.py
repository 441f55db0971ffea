from collections import Counter

import pytest

from mslang.ir.arith import factorings
from mslang.ir.arith.domain import free_tiles
from mslang.ir.expr import Choice, Const, Domain, DynamicRange, FreeTile, PartitionedTile, PerfectTile, Symbol, Uniform
from mslang.schedule import distribution
from mslang.schedule.seeds import derive, generator

DOMAINS = [
    PerfectTile(Const(48), 3, 8),
    PerfectTile(Const(1021), 2, 64),
    PerfectTile(Const(1), 3, None),
    PerfectTile(Const(64), 1, None),
    PartitionedTile(Const(64), 4, 2, 8),
    PartitionedTile(Const(24), 2, 0, 3),
    FreeTile(Const(13), 3, 4),
    FreeTile(Const(7), 2, None),
    Choice((1, 2, 5)),
    Uniform(2, 6),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_draws_members_and_counts_agree(domain: Domain):
    values = list(distribution.enumerate_values(domain, {}))
    assert len(values) == len(set(values)) == distribution.count(domain, {})
    assert all(distribution.objection(domain, v, {}) is None for v in values)
    assert {distribution.draw(domain, generator(s, "x"), {}) for s in range(2000)} == set(values)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_neighbours_are_other_members(domain: Domain):
    for value in list(distribution.enumerate_values(domain, {}))[:40]:
        near = list(distribution.neighbours(domain, value, {}))
        assert len(near) == len(set(near))
        assert all(n != value and distribution.objection(domain, n, {}) is None for n in near)


def test_perfect_tiles_are_uniform_over_spreads():
    drawn = Counter(distribution.draw(PerfectTile(Const(12), 2, None), generator(s, "x"), {}) for s in range(6000))
    assert set(drawn) == {(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)}
    assert max(drawn.values()) < 1.25 * min(drawn.values())


def test_a_rare_cap_is_drawn_too():
    # Of the 105 * 36 spreads few leave the last factor at most 1: the rejection loop alone would give up.
    extent = 2**30 * 3**20
    for s in range(50):
        factors = factorings.draw(generator(s, "x"), extent, 2, 1)
        assert factors == (extent, 1)


def test_a_cap_that_nothing_satisfies_gives_no_value():
    assert distribution.draw(PerfectTile(Const(64), 1, 8), generator(0, "x"), {}) is None
    assert distribution.draw(PartitionedTile(Const(9), 2, 1, 2), generator(0, "x"), {}) is None
    whole = FreeTile(Const(6), 1, 4)
    assert distribution.draw(whole, generator(0, "x"), {}) is None
    assert list(distribution.enumerate_values(whole, {})) == [] and free_tiles(6, 1, 4) == ()
    assert distribution.kept(FreeTile(Symbol("M", DynamicRange(1, 9)), 1, 4), (None,), {}) == ((None,), None)


@pytest.mark.parametrize(
    ("domain", "value", "mended"),
    [
        (PerfectTile(Const(512), 4, 64), (16, 4, 2, 8), (8, 4, 2, 8)),
        (PerfectTile(Const(48), 2, 8), (2, 24), (6, 8)),
        (PerfectTile(Const(60), 3, None), (8, 8), (2, 5, 6)),
        (PartitionedTile(Const(64), 2, 1, 8), (64, 1), (8, 8)),
        (FreeTile(Const(10), 2, 4), (1, 30), (3, 4)),
        (Choice((0, 16, 64)), 20, 16),
        (Uniform(2, 6), 9, 5),
    ],
)
def test_stale_values_are_mended(domain: Domain, value: distribution.Number, mended: distribution.Number):
    assert distribution.kept(domain, value, {}) == (mended, distribution.objection(domain, value, {}))


@pytest.mark.parametrize(
    ("domain", "value"),
    [
        (PerfectTile(Const(8), 2, None), "text"),
        (PerfectTile(Const(8), 2, None), (0, 8)),
        (Choice((1, 2)), "x"),
        (PartitionedTile(Const(9), 2, 1, 2), (9, 1)),
        (Uniform(1, 3), "x"),
    ],
)
def test_what_makes_no_sense_is_not_mended(domain: Domain, value: object):
    assert distribution.kept(domain, value, {}) is None


def test_a_tile_of_a_sampled_extent_follows_the_decisions_before_it():
    outer = PerfectTile(Const(64), 2, None)
    inner = PerfectTile(Symbol("a", outer, 1), 2, None)
    assert distribution.depends_on(inner) == {"a"}
    for s in range(50):
        a = distribution.draw(outer, generator(s, "a"), {})
        assert a is not None and isinstance(a, tuple)
        b = distribution.draw(inner, generator(s, "b"), {"a": a})
        assert isinstance(b, tuple) and b[0] is not None and b[1] is not None and b[0] * b[1] == a[1]


def test_a_dynamic_extent_takes_free_tiles_only():
    size = Symbol("M", DynamicRange(1, 4096))
    value = distribution.draw(FreeTile(size, 3, 16), generator(0, "x"), {})
    assert isinstance(value, tuple) and value[0] is None
    assert distribution.objection(FreeTile(size, 3, 16), value, {}) is None
    with pytest.raises(Exception, match="known only at the call"):
        distribution.draw(PerfectTile(size, 2, None), generator(0, "x"), {})


def test_generators_depend_on_seed_and_address_only():
    assert derive(0, "a") == 1574244910681746387
    assert derive(0, "a") != derive(1, "a") != derive(1, "b")
