"""Programs as operations on whole arrays: each block is an elementwise map, or a reduction of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import NoReturn

import msgspec

from mslang.ir.dtype import is_float
from mslang.ir.expr import TRUE, ZERO, Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, children, dtype_of
from mslang.ir.find import all_buffers, block_paths
from mslang.ir.program import Block, Buffer, For, Let, Program, Stmt, Store
from mslang.ir.reduction import identity, update_of
from mslang.ir.visit import Path, substitute

TYPES = frozenset({"bool", "i8", "u8", "i16", "i32", "i64", "f32", "f64"})
"""The element types that NumPy and torch compute in as programs do."""

SUMMED = frozenset({"f32", "f64", "i32", "i64"})
"""Element types whose products the libraries add up in the type itself."""

REDUCTIONS = frozenset({"+", "max", "min"})

OPERATORS = frozenset({"+", "-", "*", "/", "min", "max", "==", "!=", "<", "<=", ">", ">=", "and", "or"})

FUNCTIONS = frozenset(
    {"exp", "exp2", "expm1", "log", "log2", "log1p", "pow", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos"}
    | {"atan", "atan2", "sinh", "cosh", "tanh", "sigmoid", "fmod", "floor", "ceil", "round", "trunc", "abs"}
)
"""The functions that both libraries have."""


class NotOnArrays(ValueError):
    """Why no sequence of array operations computes a program."""


class Stage(msgspec.Struct, frozen=True):
    """What a block computes: `output[axes] = value`; with `op`, the reduction of the values over the last axes.

    `axes` are those of the output, in the order of its dimensions, and then the reduced ones.
    """

    block: str
    output: str
    axes: tuple[str, ...]
    extents: tuple[int, ...]
    value: Expr
    op: str = ""
    reduced: int = 0

    @property
    def kept(self) -> tuple[str, ...]:
        """The axes of the output."""
        return self.axes[: len(self.axes) - self.reduced]


class Kept(msgspec.Struct, frozen=True):
    """An array between stages."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Operations(msgspec.Struct, frozen=True):
    """A program as a sequence of stages, and the arrays that it keeps between them."""

    stages: tuple[Stage, ...]
    between: tuple[Kept, ...] = ()


def operations_of(program: Program) -> Operations:
    """A program as operations on whole arrays.

    Raises:
        NotOnArrays: a block is none, or sizes are not known.

    >>> [s.op for s in operations_of(softmax).stages]
    ['max', '', '+', '']
    """
    paths = whole_blocks(program)
    buffers = all_buffers(program)
    stages = tuple(_stage(path, buffers) for path in paths)
    defined = {p.buffer.name for p in program.params if p.direction != "out"}
    written: set[str] = set()
    for s in stages:
        for name in loaded(s.value):
            if name not in defined:
                _refuse(s.block, f"it reads `{name}` before a block has written it")
        if s.output in written:
            _refuse(s.block, f"`{s.output}` is written by another block, too")
        written.add(s.output)
        defined.add(s.output)
    given = {p.buffer.name for p in program.params}
    made = (buffers[s.output] for s in stages if s.output not in given)
    return Operations(stages, tuple(Kept(b.name, b.dtype, numbers(b)) for b in made))


def loaded(e: Expr) -> tuple[str, ...]:
    """The buffers that an expression reads, each once."""
    if isinstance(e, Load):
        return (e.buffer,)
    return tuple(dict.fromkeys(name for x in children(e) for name in loaded(x)))


# ------------------------------------------------------------------ blocks
def whole_blocks(program: Program) -> tuple[Path, ...]:
    """The paths of a program's blocks, each of which is alone in its loops over all values of its axes.

    Raises:
        NotOnArrays: a block is not, or the sizes of arrays are not numbers.
    """
    if program.dynamic:
        raise NotOnArrays("the sizes are known only at the call")
    if any(p.packing is not None for p in program.params):
        raise NotOnArrays("a parameter is packed")
    paths = block_paths(program.body)
    for path in paths:
        _require_whole(path)
    if len(paths) != len(program.body):
        raise NotOnArrays("statements stand outside of blocks")
    return paths


def _require_whole(path: Path) -> None:
    block = path[-1]
    assert isinstance(block, Block)
    loops = {s.var: s.extent for s in path[:-1] if isinstance(s, For) and len(s.body) == 1 and s.start == ZERO}
    bound = {a.binding.name: a.extent for a in block.axes if isinstance(a.binding, Var)}
    if len(loops) != len(path) - 1 or bound != loops or len(bound) != len(block.axes):
        _refuse(block.name, "it is not alone in loops over its axes")
    if block.predicate != TRUE:
        _refuse(block.name, "it has a predicate")
    if block.allocs or block.views:
        _refuse(block.name, "it has buffers of its own")
    for a in block.axes:
        if a.kind not in ("spatial", "reduce"):
            _refuse(block.name, f"axis `{a.name}` is a {a.kind} axis")


def extents_of(block: Block) -> dict[str, int]:
    """The extents of a block's axes.

    Raises:
        NotOnArrays: one is not a number.
    """
    extents = {a.name: int(a.extent.value) for a in block.axes if isinstance(a.extent, Const)}
    if len(extents) != len(block.axes):
        _refuse(block.name, "its extents are not numbers")
    return extents


def only_store(block: Block) -> Store:
    """The store that a block consists of, with the values of its `let`s in place of their names.

    Raises:
        NotOnArrays: it has other statements.
    """
    body: tuple[Stmt, ...] = block.body
    names: dict[str, Expr] = {}
    while len(body) == 1 and isinstance(body[0], Let):
        names[body[0].name] = substitute(body[0].value, names)
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], Store):
        _refuse(block.name, "it is more than one store")
    indices = tuple(substitute(x, names) for x in body[0].indices)
    return Store(body[0].buffer, indices, substitute(body[0].value, names))


def _stage(path: Path, buffers: Mapping[str, Buffer]) -> Stage:
    block = path[-1]
    assert isinstance(block, Block)
    extents = extents_of(block)
    spatial = [a.name for a in block.axes if a.kind == "spatial"]
    reduced = [a.name for a in block.axes if a.kind == "reduce"]
    store = only_store(block)

    def require(holds: bool, why: str) -> None:
        if not holds:
            _refuse(block.name, why)

    axes = _plain(store.buffer, store.indices, extents, buffers, require)
    require({*axes} == {*spatial}, f"it writes elements of `{store.buffer}` more than once")
    op, value = _reduced(block, store, buffers[store.buffer].dtype) if reduced else ("", store.value)
    require(bool(reduced) or block.init is None, "it has an initial value, but no axis to reduce")
    _require_operations(value, extents, buffers, require)
    require(store.buffer not in loaded(value), f"it reads `{store.buffer}`, which it writes")
    full = tuple(axes) + tuple(reduced)
    if reduced:
        summed = op == "+" and is_product(value, {*full})
        require(summed or _holds_all(value, {*full}), "no array has all axes that it reduces")
    return Stage(block.name, store.buffer, full, tuple(extents[a] for a in full), value, op, len(reduced))


def _reduced(block: Block, store: Store, dtype: str) -> tuple[str, Expr]:
    """The operator of a reduction and what it reduces."""
    update = update_of(store)
    if update is None or update.op not in REDUCTIONS:
        _refuse(block.name, "it is no sum, maximum or minimum")
    if block.init != (Store(store.buffer, store.indices, identity(update.op, dtype)),):
        _refuse(block.name, f"its reduction does not begin with the identity of `{update.op}`")
    return update.op, update.value


def _plain(
    buffer: str,
    indices: tuple[Expr, ...],
    extents: Mapping[str, int],
    buffers: Mapping[str, Buffer],
    require: Callable[[bool, str], None],
) -> list[str]:
    """The axes that index a buffer, each dimension by another one, from end to end."""
    names = [x.name for x in indices if isinstance(x, Var)]
    require(len({*names}) == len(indices), f"`{buffer}` is not indexed by a different axis in each dimension")
    whole = tuple(extents.get(n) for n in names) == numbers(buffers[buffer])
    require(whole, f"it covers only a part of `{buffer}`")
    require(buffers[buffer].dtype in TYPES, f"`{buffer}` has elements of type {buffers[buffer].dtype}")
    return names


def _require_operations(
    e: Expr, extents: Mapping[str, int], buffers: Mapping[str, Buffer], require: Callable[[bool, str], None]
) -> None:
    """Require that both libraries have the operations of an expression, and that it loads whole arrays."""
    match e:
        case Load(buffer=buffer, indices=indices):
            _plain(buffer, indices, extents, buffers, require)
            return
        case Var(name=name):
            require(False, f"it computes with the axis `{name}`")
        case Binary(op=op, left=left):
            has = op in OPERATORS and (op != "/" or is_float(dtype_of(left)))
            require(has, f"the libraries have no `{op}` on {dtype_of(left)} as programs do")
        case Call(name=name):
            require(name in FUNCTIONS, f"not both libraries have `{name}`")
        case Const() | Unary() | Select() | Cast():
            pass
        case _:
            require(False, "it has an expression that is no array operation")
    require(dtype_of(e) in TYPES, f"it computes in {dtype_of(e)}")
    for x in children(e):
        _require_operations(x, extents, buffers, require)


def _holds_all(e: Expr, axes: set[str]) -> bool:
    """Whether a load has all axes."""
    if isinstance(e, Load):
        return {x.name for x in e.indices if isinstance(x, Var)} == axes
    return any(_holds_all(x, axes) for x in children(e))


def is_product(e: Expr, axes: set[str]) -> bool:
    """Whether an expression is a product of loads that have all axes together, of one type that is summed as it is."""
    factors = factors_of(e)
    loads = [x for x in factors if isinstance(x, Load)]
    named = {y.name for x in loads for y in x.indices if isinstance(y, Var)}
    types = {x.dtype for x in loads}
    return len(loads) == len(factors) > 1 and named == axes and len(types) == 1 and types <= SUMMED


def factors_of(e: Expr) -> tuple[Expr, ...]:
    """The factors of a product, from left to right; the expression itself if it is none."""
    if isinstance(e, Binary) and e.op == "*":
        return (*factors_of(e.left), *factors_of(e.right))
    return (e,)


def numbers(buffer: Buffer) -> tuple[int, ...]:
    """The shape of a buffer.

    Raises:
        NotOnArrays: a size is not a number, or 0.
    """
    sizes = [int(n.value) for n in buffer.shape if isinstance(n, Const)]
    if len(sizes) != len(buffer.shape) or not prod(sizes):
        raise NotOnArrays(f"the shape of `{buffer.name}` is not known")
    return tuple(sizes)


def _refuse(block: str, why: str) -> NoReturn:
    raise NotOnArrays(f"block `{block}`: {why}")
