"""Decisions as arrays: every distribution, membership, layout, keys, and the same numbers everywhere."""

from collections import Counter
from math import prod
from random import Random

import numpy as np
import pytest

from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.expr import (
    Binary,
    Choice,
    Const,
    Domain,
    DynamicRange,
    FreeTile,
    PartitionedTile,
    PerfectTile,
    Symbol,
    Uniform,
)
from mslang.ir.print import print_program
from mslang.schedule import distribution
from mslang.schedule.batch import tiles
from mslang.schedule.batch.draw import draw_of
from mslang.schedule.batch.layout import DecisionBatch, layout_of
from mslang.schedule.batch.membership import member_of
from mslang.schedule.batch.random_words import Stream, below, mixed, thresholds
from mslang.schedule.decisions import Decision
from tests.unit.schedule.samples import body, space

OUTER = PerfectTile(Const(64), 3, 16)
WIDTH = Choice((1, 3, 8))
SIZE = Symbol("M", DynamicRange(1, 4096))

DOMAINS: list[Domain] = [
    PerfectTile(Const(48), 3, 8),
    PerfectTile(Const(1021), 2, 64),
    PerfectTile(Const(1), 3, None),
    PerfectTile(Const(64), 1, None),
    PartitionedTile(Const(64), 4, 2, 8),
    PartitionedTile(Const(24), 2, 0, 3),
    FreeTile(Const(13), 3, 4),
    FreeTile(Const(7), 2, None),
    FreeTile(Const(9), 1, None),
    Choice((1, 2, 5)),
    Choice((4, -7, 4), (2.0, 1.0, 3.5)),
    Choice((1, 3), (1.0, 0.0)),
    Uniform(-2, 6),
]

EMPTY: list[Domain] = [
    PerfectTile(Const(64), 1, 8),
    PartitionedTile(Const(9), 2, 1, 2),
    FreeTile(Const(6), 1, 4),
]


def drawn(decisions: list[Decision], n: int, seed: int = 0) -> DecisionBatch:
    layout = layout_of(decisions)
    out = np.zeros((layout.width, n), np.int64).T
    for d, s in zip(decisions, layout.slots, strict=True):
        before = {name: out[:, k] for k, name in enumerate(layout.names)}
        out[:, s.columns] = draw_of(d, s)(Stream(seed, d.address, np.arange(n, dtype=np.uint64)), before)
    return DecisionBatch(layout, out)


def values_of(batch: DecisionBatch, address: str) -> list[distribution.Number]:
    return [batch.row(k)[address] for k in range(len(batch))]


def agrees(found: Counter[distribution.Number], expected: dict[distribution.Number, float]) -> bool:
    """A chi-square test: would such counts come from these probabilities more often than once in 10,000 times?"""
    n = found.total()
    assert found.keys() <= expected.keys()
    chi = sum((found[v] - n * p) ** 2 / (n * p) for v, p in expected.items())
    freedom = len(expected) - 1
    # Wilson and Hilferty's normal approximation of the distribution of chi square
    z = ((chi / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / (2 / (9 * freedom)) ** 0.5 if freedom else 0.0
    return bool(z < 3.72)


def probabilities(domain: Domain) -> dict[distribution.Number, float]:
    """The probability of each value, from the definition of the distribution."""
    match domain:
        case Choice(values=values, weights=weights):
            shares = weights or (1.0,) * len(values)
            found: dict[distribution.Number, float] = {}
            for v, w in zip(values, shares, strict=True):
                if w:
                    found[v] = found.get(v, 0.0) + w / sum(shares)
            return found
        case FreeTile():
            return _free(domain)
    members = list(distribution.enumerate_values(domain, {}))
    return dict.fromkeys(members, 1 / len(members))


def _free(domain: FreeTile) -> dict[distribution.Number, float]:
    extent = distribution.extent_of(domain, {})
    assert extent is not None
    found: dict[tuple[int, ...], float] = {(): 1.0}
    for k in range(domain.n - 1):
        longer: dict[tuple[int, ...], float] = {}
        for rest, p in found.items():
            limit = -(-extent // prod(rest))
            limit = min(limit, domain.max_inner) if k == 0 and domain.max_inner else limit
            for bits in range(limit.bit_length()):
                sizes = range(1 << bits, min(2 << bits, limit + 1))
                for x in sizes:
                    longer[x, *rest] = p / limit.bit_length() / len(sizes)
        found = longer
    return {(-(-extent // prod(rest)), *rest): p for rest, p in found.items()}


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_arrays_have_the_distribution_of_single_draws(domain: Domain):
    expected = probabilities(domain)
    assert sum(expected.values()) == pytest.approx(1)
    many = Counter(values_of(drawn([Decision("x", domain)], 6000), "x"))
    single = Counter(distribution.draw(domain, Random(k), {}) for k in range(3000))
    assert agrees(many, expected)
    assert agrees(Counter({v: n for v, n in single.items() if v is not None}), expected)


def test_the_test_of_distributions_rejects_others():
    many = Counter(values_of(drawn([Decision("x", Choice((1, 2, 3), (1.0, 1.0, 1.2)))], 6000), "x"))
    assert not agrees(many, probabilities(Choice((1, 2, 3))))


@pytest.mark.parametrize(
    "domain",
    [
        PerfectTile(Const(360), 3),
        PerfectTile(Const(360), 3, 6),
        PartitionedTile(Const(360), 3, 1, 6),
        PartitionedTile(Const(72), 3, 0, 4),
        PerfectTile(Const(1), 2),
    ],
    ids=repr,
)
def test_tiles_without_a_table_are_uniform_too(domain: PerfectTile | PartitionedTile, monkeypatch: pytest.MonkeyPatch):
    tiles.table.cache_clear()
    monkeypatch.setattr(tiles, "TABLE", 0)
    many = Counter(values_of(drawn([Decision("x", domain)], 20_000), "x"))
    tiles.table.cache_clear()
    assert agrees(many, probabilities(domain))


@pytest.mark.parametrize("domain", DOMAINS[:6], ids=repr)
def test_the_table_of_a_tile_is_its_enumeration(domain: Domain):
    assert isinstance(domain, PerfectTile | PartitionedTile) and isinstance(domain.extent, Const)
    found = tiles.table(domain, int(domain.extent.value))
    assert found is not None
    assert sorted(distribution.enumerate_values(domain, {})) == [tuple(r) for r in found.tolist()]


def test_large_tiles_are_members():
    decisions = [
        Decision("a", PerfectTile(Const(2**30 * 3**12), 8, 64)),
        Decision("b", PartitionedTile(Const(2**20 * 5**6), 10, 4, 40)),
        Decision("c", FreeTile(Const(2**40 + 1), 4, 1 << 20)),
        Decision("d", Uniform(-(2**40), 2**40)),
    ]
    batch = drawn(decisions, 500)
    for k in range(500):
        row = batch.row(k)
        assert [distribution.objection(d.domain, row[d.address], row) for d in decisions] == [None] * 4
    assert len(set(values_of(batch, "d"))) == 500


@pytest.mark.parametrize("domain", EMPTY, ids=repr)
def test_what_has_no_value_is_drawn_as_zeros_and_is_no_member(domain: Domain):
    batch = drawn([Decision("x", domain)], 5)
    assert not batch.array.any()
    assert not member_of(domain)(batch.array, batch.columns()).any()


def test_tiles_of_sampled_extents_follow_the_decisions_before_them():
    extent = Binary("*", Symbol("a", OUTER, 1), Symbol("w", WIDTH))
    decisions = [
        Decision("a", OUTER),
        Decision("w", WIDTH),
        Decision("b", PerfectTile(extent, 2, 4)),
        Decision("c", PartitionedTile(extent, 2, 1, 2)),
        Decision("d", FreeTile(extent, 3, 5)),
        Decision("e", PerfectTile(Symbol("b", PerfectTile(extent, 2, 4), 0), 2)),
        Decision("f", PerfectTile(extent, 2), (4, 4)),
    ]
    batch = drawn(decisions, 3000)
    conditional: dict[int, Counter[distribution.Number]] = {}
    for k in range(3000):
        row = batch.row(k)
        for d in decisions:
            reason = distribution.objection(d.domain, row[d.address], row)
            without = not any(distribution.enumerate_values(d.domain, row)) if reason else False
            assert reason is None or (without and not any(_numbers(row[d.address])))
            if reason is not None:
                break
        else:
            size = distribution.extent_of(decisions[2].domain, row)  # type: ignore[arg-type]
            assert size is not None and row["f"] == distribution.kept(decisions[6].domain, (4, 4), row)[0]  # type: ignore[index]
            conditional.setdefault(size, Counter())[row["b"]] += 1
    assert len(conditional) > 5
    tried = 0
    for size, found in conditional.items():
        # `c` needs an even extent; it does not depend on `b`, so `b` stays uniform for each extent.
        if found.total() > 100:
            tried += 1
            assert agrees(found, probabilities(PerfectTile(Const(size), 2, 4)))
    assert tried >= 3


def _numbers(value: distribution.Number) -> tuple[int | None, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("domain", [*DOMAINS, *EMPTY, FreeTile(SIZE, 3, 8), FreeTile(SIZE, 1, 8)], ids=repr)
def test_membership_is_that_of_single_values(domain: Domain):
    rng = Random(5)
    decision = Decision("x", domain)
    layout = layout_of([decision])
    rows = drawn([decision], 200).array.tolist()
    rows += [[rng.choice((-1, 0, 1, 2, 3, 4, 8, 2**62, 2**31)) for _ in r] for r in rows]
    rows += [[x + rng.choice((-1, 0, 0, 1)) for x in r] for r in rows[:200]]
    array = np.asarray(rows, np.int64)
    found = member_of(domain)(array, {})
    slot = layout.slots[0]
    for row, member in zip(rows, found.tolist(), strict=True):
        if slot.inferred and row[0] != 0:
            assert not member  # the first size is inferred: no number stands for it
        else:
            assert member == (distribution.objection(domain, layout.values(row)["x"], {}) is None), row


# ------------------------------------------------------------------ the same numbers everywhere
def test_words_are_those_of_splitmix64():
    # The first words of the generator seeded with 1234567, as its reference implementation gives them.
    state = np.uint64(1234567) + np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mixed(state).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_bounded_numbers_are_exact():
    words = mixed(np.arange(2000, dtype=np.uint64))
    for bound in (1, 2, 3, 1000, 65535, 65536, 10**6 + 1, 2**32 - 1, 2**32, 2**40 + 7, 2**62):
        found = below(words, bound)
        expected = [int(w) * bound >> 64 for w in words]
        if bound < 1 << 16:
            expected = [(int(w) >> 16) * bound >> 48 for w in words]
        assert found.tolist() == expected
    each = np.arange(1, 2001)
    assert below(words, each).tolist() == [int(below(words[k : k + 1], k + 1)[0]) for k in range(2000)]
    assert thresholds([1, 1, 2]).tolist() == [2**62, 2**63]


def test_a_batch_is_the_same_everywhere():
    sketch = next(space("tiled").sketches())
    many = sketch.batch()
    assert many is sketch.batch()
    whole = many.draw(20_000, 3)
    assert (many.draw(5, 3, start=19_000).array == whole.array[19_000:19_005]).all()
    assert not (many.draw(50, 4).array == whole.array[:50]).all()
    assert whole.array[:2].tolist() == [[64, 1, 1, 1, 4, 6, 1, 2, 1, 32, 64], [2, 8, 4, 1, 2, 3, 2, 4, 4, 8, 0]]


def test_layouts_name_columns_by_address_and_position():
    decisions = [Decision("a", OUTER), Decision("w", WIDTH), Decision("t", FreeTile(SIZE, 2, 8))]
    layout = layout_of(decisions)
    assert layout.names == ("a[0]", "a[1]", "a[2]", "w", "t[0]", "t[1]") and layout.width == 6
    assert (layout["a"].columns, layout["w"].columns, layout["t"].inferred) == (slice(0, 3), slice(3, 4), True)
    values: dict[str, distribution.Number] = {"a": (2, 4, 8), "w": 3, "t": (None, 8)}
    assert layout.row(values) == [2, 4, 8, 3, 0, 8]
    assert layout.values([2, 4, 8, 3, 0, 8]) == values
    for wrong in ({"a": (2, 4, 8), "w": 3}, values | {"a": (2, 32)}, values | {"w": (3,)}, values | {"a": 64}):
        with pytest.raises(ScheduleError, match="MS217"):
            layout.row(wrong)


def test_rows_come_and_go():
    many = next(space("helpers").sketches()).batch()
    batch = many.draw(40, 9)
    again = many.of(batch.row(k) for k in range(40))
    assert (again.array == batch.array).all()
    some = batch[np.asarray([3, 5])]
    assert len(some) == 2 and some.row(1) == batch.row(5) and batch[:0].columns().keys() == batch.columns().keys()


# ------------------------------------------------------------------ keys and counts
@pytest.mark.parametrize("name", ["tiled", "helpers", "free"])
def test_keys_tell_candidates_apart(name: str):
    many = next(space(name).sketches()).batch()
    batch = many.draw(4000, 2)
    rows = {tuple(r) for r in batch.array.tolist()}
    assert len(np.unique(many.keys(batch))) == len(rows) > 200
    assert many.exact_keys


def test_wide_decisions_have_hashed_keys():
    made = body(
        "\n".join(f"let t{k} ~ uniform(0, 1000000)\nmm.i.annotate('n{k}', t{k})".replace("'", '"') for k in range(6))
    )
    many = next(made.sketches()).batch()
    batch = many.draw(3000, 1)
    assert not many.exact_keys and len(np.unique(many.keys(batch))) == 3000
    assert (many.keys(batch) == many.keys(many.of(batch.row(k) for k in range(3000)))).all()


def test_counts_are_those_of_domains():
    sketch = next(space("tiled").sketches())
    counts = sketch.batch().counts()
    assert prod(counts.values()) == sketch.count() and counts["steps"] == 3


def test_sizes_known_at_the_call_are_given_to_expressions():
    text = """
    program rows[M: dyn(1..4096)](A: f32[M, 8], out B: f32[M, 8]) { block b[i: M, j: 8] { B[i, j] = A[i, j] } }
    schedule s for rows { let t ~ tile(b.i, n = 2, max_inner = 64)  b.i.split(t) }
    """
    (sketch,) = space("s", text).sketches()
    many = sketch.batch()
    batch = many.draw(200, 6)
    assert many.valid(batch).all() and not batch.array[:, 0].any()
    values = batch.row(7)
    assert values["t"] == (None, int(batch.array[7, 1])) and sketch.violation(values) is None
    assert print_program(sketch.instantiate(values)) == print_program(sketch.instantiate(many.of([values]).row(0)))
    outer = Binary("//", SIZE, Symbol("t", sketch.decisions[0].domain, 1))
    (found,) = many.evaluate([outer], batch, sizes={"M": 1000})
    assert found.tolist() == [1000 // x for x in batch.array[:, 1].tolist()]
    with pytest.raises(MsError, match="`M` has no value here"):
        many.evaluate([outer], batch)


def test_every_candidate_is_enumerated_once():
    seen = 0
    for sketch in (*body(REQUIRED).sketches(), *body(CHAINED).sketches(), *body("mm.i.parallel()").sketches()):
        many = sketch.batch()
        every = many.all()
        assert every is not None and len(np.unique(many.keys(every))) == len(every) == sketch.count()
        valid = every[many.valid(every)]
        points = [tuple(sorted(p.items())) for p in sketch.points()]
        assert {tuple(sorted(valid.row(k).items())) for k in range(len(valid))} == set(points)
        assert len(valid) == len(points)
        seen += len(valid)
    assert seen > 80
    free = next(body('let t ~ uniform(0, 400000)\nmm.i.annotate("t", t)').sketches())
    assert free.batch().all() is None


def test_a_sketch_without_decisions_has_one_candidate():
    many = next(body("mm.i.parallel()").sketches()).batch()
    batch = many.draw(3, 0)
    assert batch.array.shape == (3, 0) and many.valid(batch).all() and batch.row(1) == {}
    assert [x.tolist() for x in many.evaluate([Const(7)], batch)] == [[7, 7, 7]]


# ------------------------------------------------------------------ reasons
REQUIRED = """
let c ~ choose([0, 1, 2, 4])
let t ~ perfect_tile(mm.i, n = 2)
let u ~ uniform(0, 9)
if t[1] >= 8 { mm.j.unroll() }
require c != 0 and 64 // c > 20, "few rounds"
require t[0] % (u + 1) == 0 or u < 3, "uneven"
mm.k.annotate("c", c + u)
mm.i.split(t)
"""


CHAINED = """
let ti ~ perfect_tile(mm.i, n = 2)
let i0, i1 = mm.i.split(ti)
let inner ~ perfect_tile(i1, n = 2) = [2, 2]
i1.split(inner)
let free ~ tile(i0, n = 2, max_inner = 5)
i0.split(free)
"""


def test_rejections_are_counted_by_the_first_reason():
    structures = set()
    for sketch in body(REQUIRED).sketches():
        many = sketch.batch()
        batch = many.draw(1000, 5)
        expected = Counter(why for k in range(1000) if (why := sketch.violation(batch.row(k))) is not None)
        assert many.violations(batch) == expected and set(expected) == {"another structure", "few rounds", "uneven"}
        assert list(many.violations(batch).values()) == sorted(expected.values(), reverse=True)
        assert many.valid(batch).sum() == 1000 - expected.total() > 50
        structures.add(sketch.guards[0].answer)
        wrong = many.of([{"c": 3, "t": (8, 8), "u": 0}, {"c": 1, "t": (8, 4), "u": 0}])
        assert list(many.violations(wrong)) == ["c: not a value of its domain", "t: not a value of its domain"]
    assert structures == {True, False}
