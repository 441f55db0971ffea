"""Index expressions as primitives make them: what they are simplified to, the regions they cover, maps and inverses."""

from __future__ import annotations

import pytest

from mslang.diagnostics import MsError
from mslang.ir.arith import IterMap, NotAffine, Verdict, bounds, covers, decide, detect, invert, relax, simplify
from mslang.ir.expr import TRUE, ZERO, Binary, Const, Expr, FreeTile, Load, PerfectTile, Select, Symbol, Var
from mslang.ir.print import print_expr
from mslang.ir.program import Range

PERFECT = PerfectTile(Const(512), 4)
T = [Symbol("t", PERFECT, k) for k in range(4)]
FREE = FreeTile(Const(253), 3)
U = [Symbol("u", FREE, k) for k in range(3)]
SIZES: dict[str, Expr] = {f"t{k}": s for k, s in enumerate(T)} | {f"u{k}": s for k, s in enumerate(U)}


class E:
    """Writes expressions in Python: `E("i") * 16 + E("j")`."""

    def __init__(self, x: str | int | Expr) -> None:
        self.e = SIZES.get(x, Var(x)) if isinstance(x, str) else Const(x) if isinstance(x, int) else x

    def _op(self, op: str, o: E | int) -> E:
        return E(Binary(op, self.e, o.e if isinstance(o, E) else Const(o)))

    def __add__(self, o: E | int) -> E:
        return self._op("+", o)

    def __sub__(self, o: E | int) -> E:
        return self._op("-", o)

    def __mul__(self, o: E | int) -> E:
        return self._op("*", o)

    def __floordiv__(self, o: E | int) -> E:
        return self._op("//", o)

    def __mod__(self, o: E | int) -> E:
        return self._op("%", o)

    def __lt__(self, o: E | int) -> E:
        return self._op("<", o)

    def __ge__(self, o: E | int) -> E:
        return self._op(">=", o)


i, j, k, f, h, kh = (E(n) for n in ("i", "j", "k", "f", "h", "kh"))
t0, t1, t2, t3 = (E(n) for n in ("t0", "t1", "t2", "t3"))
u0, u1, u2 = (E(n) for n in ("u0", "u1", "u2"))


def over(**extents: int | E) -> dict[str, Range]:
    return {n: Range(ZERO, x.e if isinstance(x, E) else Const(x)) for n, x in extents.items()}


def split() -> E:
    return i * (t1 * t2 * t3) + j * (t2 * t3) + k * t3 + f


SPLIT = over(i=t0, j=t1, k=t2, f=t3)

CASES = [
    (j + i * 16 + 3 - 1, {}, "i * 16 + j + 2"),
    ((i * 16 + j) // 16, over(i=4, j=16), "i"),
    ((i * 16 + j) % 16, over(i=4, j=16), "j"),
    ((i * 16 + j) // 32, over(i=4, j=16), "i // 2"),
    ((i * 16 + j) % 32, over(i=4, j=16), "i % 2 * 16 + j"),
    (f // 16 * 16 + f % 16 // 4 * 4 + f % 4, {}, "f"),
    (f - f // 4 * 4, {}, "f % 4"),
    ((f % 16 + kh) // 4, {}, "(kh + f % 16) // 4"),
    ((i * 32 + j) // 12, over(j=32), "(i * 32 + j) // 12"),
    (E(15) - i, {}, "15 - i"),
    (i - 1, {}, "i - 1"),
    (E(0) - i - 3, {}, "-i - 3"),
    (f // 4 // 8, {}, "f // 32"),
    (split() // t3, SPLIT, "i * (t[1] * t[2]) + j * t[2] + k"),
    (split() % (t2 * t3), SPLIT, "k * t[3] + f"),
    (i * 1 + f % 1, over(i=1, f=1), "i"),
]


@pytest.mark.parametrize(("e", "ranges", "want"), CASES, ids=[c[2] for c in CASES])
def test_canonical_forms(e: E, ranges: dict[str, Range], want: str) -> None:
    assert print_expr(simplify(e.e, ranges)) == want


CONDITIONS = [
    (i * 16 + j < 509, over(i=32, j=16), "i * 16 + j < 509"),
    (i * 16 + j < 512, over(i=32, j=16), "true"),
    (h + kh >= 1, over(h=8, kh=3), "h + kh >= 1"),
    (E(0) < h + kh, over(h=8, kh=3), "h + kh >= 1"),
    (i * 4 < 10, {}, "i < 3"),
    (j < i, {}, "j < i"),
    (split() < 512, SPLIT, "true"),
    (i * (u1 * u2) + j * u2 + k < 253, over(i=u0, j=u1, k=u2), "i * (u[1] * u[2]) + j * u[2] + k < 253"),
]


@pytest.mark.parametrize(("e", "ranges", "want"), CONDITIONS, ids=[c[2] for c in CONDITIONS])
def test_canonical_conditions(e: E, ranges: dict[str, Range], want: str) -> None:
    assert print_expr(simplify(e.e, ranges)) == want


def test_repeated_and_decided_parts_go() -> None:
    a, b = (i < 3).e, (j < 9).e
    both = Binary("and", Binary("and", a, b), a)
    assert simplify(both, over(j=4)) == a
    assert simplify(Binary("or", a, b), over(j=4)) == TRUE


def test_a_unit_loop_stays_until_lowering() -> None:
    ranges = over(i=1, j=8)
    assert print_expr(simplify((i * 8 + j).e, ranges)) == "i * 8 + j"
    assert print_expr(simplify((i * 8 + j).e, ranges, fold=True)) == "j"


def test_other_nodes_get_simplified_operands() -> None:
    load = Load("A", ((i * 4 + j - j).e,), "f32")
    e = Select((E(0) < E(1)).e, load, Load("A", (ZERO,), "f32"))
    assert simplify(e) == Load("A", ((i * 4).e,), "f32")
    choice = Select((i < j).e, (i + 0).e, (j * 1).e)
    assert simplify((E(choice) + 1).e) == Binary("+", Select((i < j).e, i.e, j.e), Const(1))
    assert simplify((E(choice) + 1).e, over(i=4) | {"j": Range(Const(9), Const(4))}) == (i + 1).e


REGIONS = [
    (i * 16 + j, over(j=16), "i * 16", "16"),
    (h * 2 + kh, over(h=8, kh=3), "0", "17"),
    (E(15) - i, over(i=4), "12", "4"),
    (i * (t2 * t3) + j, over(j=t2 * t3), "i * (t[2] * t[3])", "t[2] * t[3]"),
    ((i * 4 + j) // 8, over(j=4), "i // 2", "1"),
    ((i * 4 + j) % 8, over(j=4), "i % 2 * 4", "4"),
    ((i * 6 + j) // 8, over(j=6), "i * 3 // 4", "2"),
    (f // t3, over(f=t2 * t3), "0", "t[2]"),
    ((i * t3 + j) // 512, over(j=t3), "i * t[3] // 512", "1"),
    ((i * t3 + j) % 512, over(j=t3), "i * t[3] % 512", "t[3]"),
    ((i * t3 + j) // 64, over(j=t3), "i * t[3] // 64", "(t[3] + 63) // 64"),
    ((i * t3 + j) // 48, over(j=t3), "i * t[3] // 48", "(t[3] + 47) // 48 + min(1, 48 % t[3])"),
]


@pytest.mark.parametrize(("e", "ranges", "start", "extent"), REGIONS, ids=[f"{c[2]} for {c[3]}" for c in REGIONS])
def test_regions(e: E, ranges: dict[str, Range], start: str, extent: str) -> None:
    (box,) = relax((e.e,), ranges)
    assert (print_expr(box.start), print_expr(box.extent)) == (start, extent)


def test_a_range_that_moves_with_another() -> None:
    ranges = {"i": Range(ZERO, Const(4)), "j": Range((i * 8).e, Const(8))}
    assert bounds(j.e, ranges) == (ZERO, Const(31))
    assert decide((j - i * 8 < 8).e, ranges) is Verdict.PROVED


def test_an_index_from_data_needs_the_whole_dimension() -> None:
    gather = Load("idx", (i.e,), "i64")
    whole = (Range(ZERO, Const(99)),)
    assert relax((gather,), over(i=4), whole) == whole
    with pytest.raises(MsError) as caught:
        relax((gather,), over(i=4))
    assert caught.value.diagnostic.code == "MS390"


def test_a_halo_covers_its_tile() -> None:
    outer, inner = (Range((i * 8).e, Const(10)),), (Range((i * 8 + kh).e, Const(8)),)
    assert covers(outer, inner, over(i=7, kh=3)) is Verdict.PROVED
    assert covers((Range((i * 8).e, Const(9)),), outer, over(i=7)) is Verdict.REFUTED


MAPS = [
    ((i, j), over(i=4, j=8), "bijective"),
    ((f // 8, f % 8), over(f=32), "bijective"),
    ((f // 8, f % 8), over(f=30), "injective"),
    (((i * 8 + j) // 12, (i * 8 + j) % 12), over(i=15, j=8), "bijective"),
    ((h + kh,), over(h=8, kh=3), "affine"),
    ((i * 2,), over(i=4), "injective"),
    ((i,), over(i=4, j=8), "affine"),
    ((split(),), SPLIT, "bijective"),
    (((i * t3 + j) // 64, (i * t3 + j) % 64), over(i=t0 * t1 * t2, j=t3), "bijective"),
    ((f // (t2 * t3), f % (t2 * t3) // t3, f % t3), over(f=512), "bijective"),
]


@pytest.mark.parametrize(("bindings", "ranges", "level"), MAPS)
def test_levels_of_maps(bindings: tuple[E, ...], ranges: dict[str, Range], level: str) -> None:
    found = detect([b.e for b in bindings], ranges)
    assert isinstance(found, IterMap) and found.level == level


def test_a_predicate_bounds_a_fused_index() -> None:
    e = i * (u1 * u2) + j * u2 + k
    found = detect([e.e], over(i=u0, j=u1, k=u2), (e < 253).e)
    assert isinstance(found, IterMap) and (found.level, found.extents) == ("bijective", (Const(253),))


def test_why_a_map_is_not_affine() -> None:
    found = detect([k.e, (i * j).e], over(i=3, j=3, k=3))
    assert isinstance(found, NotAffine) and found.binding == 1 and "product of loops" in found.reason


def test_the_inverse_of_a_layout() -> None:
    y = [Var("y0"), Var("y1")]
    found = invert([(f // 8).e, (f % 8).e], y, over(f=32))
    assert found is not None and print_expr(found["f"]) == "y0 * 8 + y1"
    assert invert([(h + kh).e], y[:1], over(h=8, kh=3)) is None
