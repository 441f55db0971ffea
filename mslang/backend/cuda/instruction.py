"""Instructions in place: the text that implements one, with its operands put in."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace

from mslang.backend.cuda.expression import ExpressionPrinter, flattened
from mslang.backend.cuda.scope import Place, Scope
from mslang.backend.cuda.texts import FragmentType, read_text
from mslang.backend.cuda.types import Level
from mslang.diagnostics import MsError, problem
from mslang.ir.arith import simplify
from mslang.ir.dtype import size_of
from mslang.ir.expr import Binary, Const, Expr, Load
from mslang.ir.intrin import PLACEHOLDER
from mslang.ir.print import print_expr
from mslang.ir.program import HOLDERS
from mslang.kernel.nodes import Body, Invoke
from mslang.kernel.visit import walk
from mslang.lower.gpu.axes import WARP
from mslang.lower.gpu.indices import multiple_of
from mslang.lower.instructions import require_as_declared

LANE = "lane"
"""`{lane}` in a text: the number of the thread in its warp."""


def is_fragment(scope: str) -> bool:
    """Whether memory of a scope is the registers of several threads, without addresses."""
    return scope in HOLDERS


def instruction(printer: ExpressionPrinter, s: Invoke, scope: Scope) -> list[str]:
    """The lines of an instruction.

    Raises:
        MsError: MS419, the text names an operand or a stride that it does not have, or an operand is not what the text
            relies on; MS441, a line of it is refused.
    """
    found = read_text(s.name, s.text)
    printer.used.headers.update(found.headers)
    operands = {p.name: (e, rank) for p, e, rank in zip(s.params, s.operands, s.ranks, strict=True)}
    for formal, e, rank in zip(s.params, s.operands, s.ranks, strict=True):
        if isinstance(e, Load) and e.buffer not in scope.fragments:
            place = printer.place(e.buffer, scope)
            require_as_declared(s, formal, e, place.strides, rank)
            if formal.name in found.aligned:
                _require_aligned(s, formal.name, e, place, rank, found.aligned[formal.name], scope)
            if formal.name in found.contiguous:
                _require_contiguous(s, formal.name, e, place, found.contiguous[formal.name], scope)

    def named(m: re.Match[str]) -> str:
        name, stride, dimension, at = m.groups()
        if name == LANE and stride is None and at is None and name not in operands:
            return _lane(scope)
        e, rank = operands.get(name, (None, 0))
        if not isinstance(e, Load):
            raise _unknown(s.name, f"the operand `{name}`")
        if stride is None:
            if at is not None:
                e = _moved(e, tuple(int(x) for x in at.split(",")), rank)
            return operand(printer, e, scope)
        k = int(dimension or 0)
        if k >= rank:
            raise _unknown(s.name, f"dimension {k} of `{name}`")
        if e.buffer in scope.fragments:
            raise _unknown(s.name, f"the stride of `{name}`, a fragment,")
        strides = printer.place(e.buffer, scope).strides
        return printer.value(strides[len(strides) - rank + k], scope).at(Level.ATOM)

    return [line.rstrip() for line in PLACEHOLDER.sub(named, found.statements).split("\n")]


def _require_aligned(s: Invoke, param: str, e: Load, place: Place, rank: int, wanted: int, scope: Scope) -> None:
    """An operand in memory must provably begin at a multiple of some bytes, and each of its rows with it."""
    size = size_of(place.buffer.dtype)
    begin = multiple_of(simplify(flattened(place, e.indices), scope.ranges)) * size
    if place.align % wanted or begin % wanted:
        raise _misaligned(s.name, param, e.buffer, f"is not known to begin at a multiple of {wanted} bytes")
    for stride in place.strides[len(place.strides) - rank : -1]:
        if multiple_of(simplify(stride, scope.ranges)) * size % wanted:
            text = f"has rows {print_expr(stride)} elements of {size} bytes apart, not a multiple of {wanted} bytes"
            raise _misaligned(s.name, param, e.buffer, text)


def _require_contiguous(s: Invoke, param: str, e: Load, place: Place, tile: tuple[int, ...], scope: Scope) -> None:
    """The last elements of an operand in memory, a tile of them, must provably be in one piece."""
    wanted = 1
    for size, stride in zip(reversed(tile), reversed(place.strides), strict=False):
        if simplify(stride, scope.ranges) != Const(wanted):
            shape = " × ".join(map(str, tile))
            raise MsError(
                problem(
                    "MS419",
                    f"`{e.buffer}` is not laid out as the instruction `{s.name}` takes `{param}`",
                    why=f"its tiles of {shape} elements are not in one piece: a stride is {print_expr(stride)}, "
                    f"not {wanted}",
                    help="leave its last dimensions without padding",
                )
            )
        wanted *= size


def _misaligned(name: str, param: str, buffer: str, why: str) -> MsError:
    return MsError(
        problem(
            "MS419",
            f"`{buffer}` is not aligned as the instruction `{name}` takes `{param}`",
            why=f"`{buffer}` {why}",
            help="pad its rows by a multiple of that (`storage_align`)",
        )
    )


def _moved(e: Load, by: tuple[int, ...], rank: int) -> Load:
    """The element of an operand at these indices."""
    if len(by) != rank:
        raise _unknown(e.buffer, f"an element with {len(by)} indices; there are {rank} dimensions: it")
    whole = (*(0 for _ in range(len(e.indices) - rank)), *by)
    indices = tuple(Binary("+", x, Const(k)) if k else x for x, k in zip(e.indices, whole, strict=True))
    return replace(e, indices=indices)


def _lane(scope: Scope) -> str:
    """The number of the thread in its warp: it is `threadIdx.x` alone where rows of threads are whole warps."""
    across = scope.ranges.get(_ACROSS)
    if across is not None and isinstance(n := across.extent, Const) and int(n.value) % WARP == 0:
        own = scope.variables[_ACROSS].text
        return own if int(n.value) == WARP else f"({own} % {WARP})"
    return f"((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % {WARP})"


_ACROSS = "threadIdx.x"


def operand(printer: ExpressionPrinter, e: Load, scope: Scope) -> str:
    """What stands for an operand: the address of its first element, or the fragment that it is."""
    held = scope.fragments.get(e.buffer)
    if held is None:
        return printer.address(e.buffer, e.indices, scope)
    number = simplify(tile_number(held.buffer.shape, held.tile, e.indices), scope.ranges)
    return f"{held.array}[{printer.value(number, scope).text}]"


def tile_number(shape: tuple[Expr, ...], tile: tuple[int, ...], indices: tuple[Expr, ...]) -> Expr:
    """The number of the tile that begins at `indices`, tiles counted row by row."""
    sizes = (1,) * (len(shape) - len(tile)) + tile
    total: Expr = Const(0)
    for extent, size, at in zip(shape, sizes, indices, strict=True):
        tiles = Binary("//", Binary("+", extent, Const(size - 1)), Const(size))
        total = Binary("+", Binary("*", total, tiles), Binary("//", at, Const(size)))
    return total


def fragments_of(s: Invoke) -> frozenset[str]:
    """The buffers of an instruction's operands that its text holds as fragments."""
    declared = read_text(s.name, s.text).fragments
    held = ((p, e) for p, e in zip(s.params, s.operands, strict=True) if p.name in declared)
    return frozenset(e.buffer for _, e in held if isinstance(e, Load))


def with_shared_fragments(body: Body, chosen: Callable[[Invoke], bool]) -> frozenset[Invoke]:
    """The instructions that are chosen, and those that share a fragment with one of them."""
    calls = [s for s in walk(body) if isinstance(s, Invoke)]
    found = {s for s in calls if chosen(s)}
    while True:
        held = frozenset(name for s in found for name in fragments_of(s))
        more = {s for s in calls if s not in found and fragments_of(s) & held}
        if not more:
            return frozenset(found)
        found |= more


def fragment_types(body: Body) -> dict[str, FragmentType]:
    """How each fragment that the instructions of a body use is held.

    Raises:
        MsError: MS441, two instructions hold one fragment differently, or one does not say how.
    """
    found: dict[str, FragmentType] = {}
    by: dict[str, str] = {}
    for s in walk(body):
        if not isinstance(s, Invoke):
            continue
        declared = read_text(s.name, s.text).fragments
        for p, e in zip(s.params, s.operands, strict=True):
            if not isinstance(e, Load) or p.name not in declared:
                continue
            known = found.setdefault(e.buffer, declared[p.name])
            by.setdefault(e.buffer, s.name)
            if known != declared[p.name]:
                raise MsError(
                    problem(
                        "MS441",
                        f"`{by[e.buffer]}` and `{s.name}` hold the fragment `{e.buffer}` differently",
                        why=f"as {known.type} and as {declared[p.name].type}",
                        help="use instructions of one family on a fragment",
                    )
                )
    return found


def _unknown(name: str, what: str) -> MsError:
    return MsError(problem("MS419", f"the text of `{name}` names {what}, which does not exist"))


def constant_count(shape: tuple[Expr, ...], tile: tuple[int, ...], buffer: str) -> int:
    """How many tiles a fragment buffer has.

    Raises:
        MsError: MS441, its shape is not known, or not made of tiles.
    """
    sizes = [int(e.value) if isinstance(e, Const) else 0 for e in shape]
    tiles = (1,) * (len(sizes) - len(tile)) + tile
    count = 1
    for n, t in zip(sizes, tiles, strict=False):
        if n <= 0 or n % t:
            raise MsError(
                problem(
                    "MS441",
                    f"the fragment `{buffer}` is not made of tiles of {' x '.join(map(str, tile))}",
                    help="change the tile sizes of the block that is tensorized",
                )
            )
        count *= n // t
    return count
