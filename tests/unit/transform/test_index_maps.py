"""What index maps do to boxes of indices: image, inverse, what is left out; held against brute force."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from mslang.ir.arith import evaluate
from mslang.ir.expr import Binary, Choice, Const, DynamicRange, Expr, PerfectTile, Symbol, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.print import print_expr
from mslang.transform.analysis.index_maps import Image, NoImage, hull, image, why_not_fitting
from tests.property.steps_layout import index_map
from tests.unit.transform.layouts import fn

NAMES = ("a", "b", "c", "d", "e", "f", "g", "h")


def image_of(index_map: IndexMap, *extents: int | Expr) -> Image | NoImage:
    sizes = [Const(n) if isinstance(n, int) else n for n in extents]
    return image(index_map, sizes, NAMES[: len(index_map.results)])


@pytest.mark.parametrize(
    ("f", "extents", "shape", "inverse", "padding"),
    [
        (lambda i: [i // 4, i % 4], (16,), "4, 4", "a * 4 + b", "false"),
        (lambda i: [i // 4, i % 4], (14,), "4, 4", "a * 4 + b", "a * 4 + b >= 14"),
        (lambda i, j: [j, i], (4, 8), "8, 4", "b, a", "false"),
        (lambda i, j: [i * 8 + j], (4, 8), "32", "a // 8, a % 8", "false"),
        (lambda i, j: [i * 8 + j], (4, 6), "30", "a // 8, a % 8", "a % 8 >= 6"),
        (lambda i: [3 - i], (4,), "4", "3 - a", "false"),
        (lambda i: [i + 3], (4,), "7", "a - 3", "0 > a - 3"),
        (lambda i: [0, i], (4,), "1, 4", "b", "false"),
        (lambda i, j: [i], (4, 1), "4", "a, 0", "false"),
        (lambda i: [i * 2], (4,), "7", "a // 2", "a // 2 * 2 != a"),
    ],
)
def test_images(f: Any, extents: tuple[int, ...], shape: str, inverse: str, padding: str) -> None:
    found = image_of(fn(f), *extents)
    assert isinstance(found, Image)
    assert ", ".join(map(print_expr, found.shape)) == shape
    assert ", ".join(map(print_expr, found.inverse)) == inverse
    assert print_expr(found.padding) == padding
    assert found.is_onto == (padding == "false")


@pytest.mark.parametrize(
    ("f", "extents", "reason"),
    [
        (lambda i: [i % 4], (16,), "not known that different indices"),
        (lambda i, j: [i + j], (4, 4), "not known that different indices"),
        (lambda i: [i - 1], (4,), "negative"),
        (lambda i, j: [i * j], (4, 4), "product"),
    ],
)
def test_maps_without_an_image(f: Any, extents: tuple[int, ...], reason: str) -> None:
    found = image_of(fn(f), *extents)
    assert isinstance(found, NoImage) and reason in found.reason


def test_symbols_decide_by_what_is_known_of_them() -> None:
    tile, free = Symbol("t", PerfectTile(Const(64), 2), 1), Symbol("u", Choice((4, 6)))

    def cut(by: Expr) -> IndexMap:
        return IndexMap(("i",), (Binary("//", Var("i"), by), Binary("%", Var("i"), by)))

    found = image_of(cut(tile), 64)
    assert isinstance(found, Image) and found.is_onto
    found = image_of(cut(free), 64)
    assert isinstance(found, Image) and not found.is_onto
    dynamic = Symbol("M", DynamicRange(4, 64, 4))
    found = image_of(cut(Const(4)), dynamic)
    assert isinstance(found, Image) and found.is_onto
    found = image_of(cut(Const(8)), dynamic)
    assert isinstance(found, Image) and print_expr(found.padding) == "a * 8 + b >= M"


@pytest.mark.parametrize("seed", range(60))
def test_images_against_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    extents = [rng.choice([1, 2, 3, 4, 6, 7]) for _ in range(rng.randint(1, 3))]
    made = index_map(rng, [Const(n) for n in extents], exact=rng.random() < 0.5)
    found = image_of(made, *extents)
    values = {}
    for x in product(*map(range, extents)):
        to = tuple(int(evaluate(e, dict(zip(made.params, x, strict=True)))) for e in made.results)
        assert values.setdefault(to, x) == x or isinstance(found, NoImage)
        values[to] = x
    if isinstance(found, NoImage):
        box = hull(made, [Const(n) for n in extents])
        assert box is None or all(v < int(evaluate(n, {})) for to in values for v, n in zip(to, box, strict=True))
        return
    shape = [int(evaluate(e, {})) for e in found.shape]
    assert all(n > to[k] for k, n in enumerate(shape) for to in values)
    for to in product(*map(range, shape)):
        env = dict(zip(found.names, to, strict=True))
        assert bool(evaluate(found.valid, env)) is (to in values) is not bool(evaluate(found.padding, env))
        if to in values:
            assert tuple(int(evaluate(e, env)) for e in found.inverse) == values[to]


def test_maps_that_do_not_fit() -> None:
    two = fn(lambda i, j: [i, j])
    assert why_not_fitting(two, 2) is None
    assert "2 indices, not 1" in str(why_not_fitting(two, 1))
    assert "`k`" in str(why_not_fitting(IndexMap(("i",), fn(lambda k: [k]).results), 1))
    assert "no index" in str(why_not_fitting(IndexMap(("i",), ()), 1))
    assert "is not an index" in str(why_not_fitting(IndexMap(("i",), (Const(1.0, "f32"),)), 1))
