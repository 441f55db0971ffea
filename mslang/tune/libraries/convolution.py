"""Two-dimensional convolutions in NHWC, and the call of torch that computes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mslang.ir.arith.linear import Condition, condition, linear
from mslang.ir.expr import Binary, Const, Expr, Load, Select, Var
from mslang.ir.find import all_buffers
from mslang.ir.program import Block, Program, Store
from mslang.ir.reduction import identity, update_of
from mslang.tune.libraries.array_operations import NotOnArrays, extents_of, numbers, only_store, whole_blocks

Pair = tuple[int, int]
"""A number for rows, and one for columns."""

Shapes = Mapping[str, tuple[int, ...]]
"""The shapes of buffers by their names."""


class Convolution(msgspec.Struct, frozen=True):
    """A convolution of pixels by a filter `[r, s, ci, co]`, or `[r, s, c]` if each channel has a filter of its own."""

    pixels: str
    filter: str
    output: str
    stride: Pair
    padding: Pair
    dilation: Pair
    depthwise: bool

    label = "conv2d"
    allocates = True

    def __call__(self, **arrays: Any) -> Any:
        """Compute it by torch, given its tensors: all are views, of channels last."""
        from torch.nn.functional import conv2d

        pixels = arrays[self.pixels].permute(0, 3, 1, 2)
        weights = arrays[self.filter]
        weights = weights.permute(2, 0, 1).unsqueeze(1) if self.depthwise else weights.permute(3, 2, 0, 1)
        groups = pixels.shape[1] if self.depthwise else 1
        found = conv2d(pixels, weights, None, self.stride, self.padding, self.dilation, groups)
        return found.permute(0, 2, 3, 1)


class _Window(msgspec.Struct, frozen=True):
    """What the block that adds up products reads."""

    pixels: str
    filter: str
    output: str
    stride: Pair
    dilation: Pair
    depthwise: bool


def convolution_of(program: Program) -> Convolution | None:
    """The convolution that a program is, with a block before it that pads the pixels with zeros, or without; None if it
    is another.

    >>> convolution_of(conv2d_nhwc).stride
    (1, 1)
    """
    try:
        blocks = [path[-1] for path in whole_blocks(program)]
        if not 1 <= len(blocks) <= 2:
            return None
        *before, last = [(b, only_store(b)) for b in blocks if isinstance(b, Block)]
        buffers = all_buffers(program)
        shapes = {name: numbers(b) for name, b in buffers.items()}
    except NotOnArrays:
        return None
    window = _window(*last, shapes)
    if window is None or buffers[window.output].dtype not in ("f32", "f64"):
        return None
    source = _padded(*before[0], shapes) if before else (window.pixels, (0, 0))
    given = {p.buffer.name for p in program.params if p.direction != "out"}
    if source is None or (before and before[0][1].buffer != window.pixels) or not {source[0], window.filter} <= given:
        return None
    pixels, padding = source
    found = Convolution(pixels, window.filter, window.output, window.stride, padding, window.dilation, window.depthwise)
    covered = _is_whole(last[0], last[1].indices, shapes[window.output]) and _gives(found, shapes)
    return found if covered else None


def _window(block: Block, store: Store, shapes: Shapes) -> _Window | None:
    """The products that a block adds up, if they are those of a convolution."""
    update = update_of(store)
    outputs = [x.name for x in store.indices if isinstance(x, Var)]
    kinds = {a.name: a.kind for a in block.axes}
    extents = extents_of(block)
    if update is None or update.op != "+" or len(outputs) != 4:
        return None
    if block.init != (Store(store.buffer, store.indices, identity("+", update.dtype)),):
        return None
    n, h, w, channel = outputs
    match update.value:
        case Binary(
            op="*",
            left=Load(buffer=pixels, indices=(Var(name=image), row, column, Var(name=ci))),
            right=Load(buffer=filter, indices=(Var(name=r), Var(name=s), *channels)),
        ):
            rows, columns = _stride_and_dilation(row, h, r), _stride_and_dilation(column, w, s)
            named = [x.name for x in channels if isinstance(x, Var)]
            depthwise = len(channels) == 1
            wanted = [channel] if depthwise else [ci, channel]
            reduced = {r, s} if depthwise else {r, s, ci}
            if rows is None or columns is None or image != n or named != wanted or (depthwise and ci != channel):
                return None
            if {a for a, kind in kinds.items() if kind == "reduce"} != reduced or len(kinds) != 4 + len(reduced):
                return None
            if tuple(extents[a] for a in (r, s, *named)) != shapes[filter]:
                return None
            stride, dilation = (rows[0], columns[0]), (rows[1], columns[1])
            return _Window(pixels, filter, store.buffer, stride, dilation, depthwise)
    return None


def _stride_and_dilation(index: Expr, output: str, offset: str) -> Pair | None:
    """`S` and `D` of an index `output * S + offset * D`."""
    form = linear(index)
    if form is None or form.constant or {*form.terms} != {output, offset} or min(form.terms.values()) < 1:
        return None
    return form.terms[output], form.terms[offset]


def _padded(block: Block, store: Store, shapes: Shapes) -> tuple[str, Pair] | None:
    """The array that a block copies into the middle of a larger one whose border is 0, and the width of the border."""
    axes = [x.name for x in store.indices if isinstance(x, Var)]
    if block.init is not None or len(axes) != 4 or not _is_whole(block, store.indices, shapes[store.buffer]):
        return None
    n, h, w, c = axes
    match store.value:
        case Select(
            condition=inside,
            then=Load(buffer=pixels, indices=(Var(name=image), row, column, Var(name=channel))),
            otherwise=Const(value=0),
        ) if (image, channel) == (n, c):
            rows, columns = linear(row), linear(column)
            if rows is None or columns is None or (rows.terms, columns.terms) != ({h: 1}, {w: 1}):
                return None
            padding = -rows.constant, -columns.constant
            _, height, width, _ = shapes[pixels]
            wanted = [*_between(h, padding[0], height), *_between(w, padding[1], width)]
            found = [condition(x) for x in _conjuncts(inside)]
            if min(padding) >= 0 and len(found) == len(wanted) and all(x in found for x in wanted):
                return pixels, padding
    return None


def _between(axis: str, low: int, extent: int) -> Iterator[Condition | None]:
    """The conditions under which an axis is from `low` up to, not including, `low + extent`."""
    yield condition(Binary("<=", Const(low), Var(axis)))
    yield condition(Binary("<", Var(axis), Const(low + extent)))


def _conjuncts(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op == "and":
        yield from _conjuncts(e.left)
        yield from _conjuncts(e.right)
    else:
        yield e


def _is_whole(block: Block, indices: tuple[Expr, ...], shape: tuple[int, ...]) -> bool:
    """Whether the spatial axes of a block index an array from end to end."""
    extents = extents_of(block)
    names = [x.name for x in indices if isinstance(x, Var)]
    spatial = {a.name for a in block.axes if a.kind == "spatial"}
    return len({*names}) == len(indices) and {*names} == spatial and tuple(extents[n] for n in names) == shape


def _gives(c: Convolution, shapes: Shapes) -> bool:
    """Whether a convolution of the arrays as a whole gives an array of the output's shape."""
    n, height, width, ci = shapes[c.pixels]
    r, s, *channels = shapes[c.filter]
    if channels[0] != ci:
        return False
    sizes = [
        (extent + 2 * p - d * (k - 1) - 1) // stride + 1
        for extent, p, d, k, stride in zip((height, width), c.padding, c.dilation, (r, s), c.stride, strict=True)
    ]
    return shapes[c.output] == (n, *sizes, channels[-1])
