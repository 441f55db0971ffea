"""Well-formed expressions: names in scope, types that agree, ranks, known operators and functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from types import MappingProxyType

import msgspec

from mslang.diagnostics import Diagnostic, problem
from mslang.ir.dtype import INDEX, bits, has_finite, is_float, is_integer, is_unsigned, parts
from mslang.ir.expr import (
    ARITHMETIC,
    BINARY_OPS,
    BITS,
    COMPARISONS,
    LOGICAL,
    SHIFTS,
    Binary,
    Call,
    Cast,
    Const,
    Domain,
    DynamicRange,
    Expr,
    FreeTile,
    Load,
    PartitionedTile,
    PerfectTile,
    Select,
    Symbol,
    Unary,
    Var,
    children,
    dtype_of,
)
from mslang.ir.functions import FUNCTIONS
from mslang.ir.program import Buffer
from mslang.ir.symbols import extent_of
from mslang.ir.text import print_expr

Found = Iterator[Diagnostic]


class Visible(msgspec.Struct, frozen=True):
    """What a place in a program may name: variables with their types, buffers, symbols with their domains.

    `place` says where that is, for messages.
    """

    place: str
    variables: Mapping[str, str] = MappingProxyType({})
    buffers: Mapping[str, Buffer] = MappingProxyType({})
    symbols: Mapping[str, Domain] = MappingProxyType({})

    def fault(self, code: str, message: str, why: str | None = None) -> Diagnostic:
        """A diagnostic that names the place."""
        return problem(code, f"{message} ({self.place})", why=why)

    def at(self, place: str) -> Visible:
        """The same names at another place."""
        return msgspec.structs.replace(self, place=place)

    def adding(self, variables: Mapping[str, str]) -> Visible:
        """More variables."""
        return msgspec.structs.replace(self, variables={**self.variables, **variables})


def typed(e: Expr, dtype: str, here: Visible, what: str) -> Found:
    """An expression that must be well-formed and of one type; `what` names it."""
    before = list(expression(e, here))
    yield from before
    if not before and dtype_of(e) != dtype:
        yield here.fault("MS153", f"{what} `{print_expr(e)}` is `{dtype_of(e)}`, not `{dtype}`")


def size(e: Expr, here: Visible, what: str) -> Found:
    """An expression that must be an index over symbols alone, and not negative where it is a number."""
    yield from typed(e, INDEX, msgspec.structs.replace(here, variables={}, buffers={}), what)
    if isinstance(e, Const) and e.dtype == INDEX and e.value < 0:
        yield here.fault("MS154", f"{what} is {e.value}", "a size is not negative")


def expression(e: Expr, here: Visible) -> Found:
    """An expression that must be well-formed."""
    if type(e) is Var and here.variables.get(e.name) == e.dtype:
        return
    inside = [d for x in children(e) for d in expression(x, here)]
    yield from inside
    if not inside:
        yield from _node(e, here)


def _node(e: Expr, here: Visible) -> Found:
    match e:
        case Const():
            yield from _const(e, here)
        case Var(name=n, dtype=d):
            known = here.variables.get(n)
            if known is None:
                yield here.fault(
                    "MS151",
                    f"`{n}` is not in scope",
                    "the body of a block names its own axes and lets; bindings name the enclosing loops",
                )
            elif known != d:
                yield here.fault("MS153", f"`{n}` is `{known}`, but is used as `{d}`")
        case Symbol():
            yield from _symbol(e, here)
        case Binary():
            yield from _binary(e, here)
        case Unary(op=op, operand=x):
            yield from _unary(op, dtype_of(x), e, here)
        case Select(condition=c, then=t, otherwise=o):
            if dtype_of(c) != "bool":
                yield here.fault("MS153", f"the condition of `{print_expr(e)}` is `{dtype_of(c)}`")
            if dtype_of(t) != dtype_of(o):
                yield here.fault("MS153", f"`{print_expr(e)}` chooses between `{dtype_of(t)}` and `{dtype_of(o)}`")
        case Cast(dtype=d):
            if parts(d) is None:
                yield here.fault("MS155", f"`{d}` is not an element type")
        case Call():
            yield from _call(e, here)
        case Load(buffer=b, indices=xs, dtype=d):
            yield from access(b, xs, d, here)
        case _:
            yield here.fault(
                "MS153", f"`{print_expr(e)}` is a vector", "programs compute with scalars, kernels alone have vectors"
            )


def access(buffer: str, indices: tuple[Expr, ...], dtype: str, here: Visible) -> Found:
    """A load or store: the buffer is known, and type, rank and indices fit. The indices are well-formed."""
    known = here.buffers.get(buffer)
    if known is None:
        yield here.fault("MS152", f"there is no buffer `{buffer}` here")
        return
    if known.dtype != dtype:
        yield here.fault("MS153", f"`{buffer}` has elements of type `{known.dtype}`, not `{dtype}`")
    if len(known.shape) != len(indices):
        yield here.fault("MS154", f"`{buffer}` has {len(known.shape)} dimensions, but {len(indices)} are indexed")
    for x in indices:
        if dtype_of(x) != INDEX:
            yield here.fault("MS153", f"the index `{print_expr(x)}` of `{buffer}` is `{dtype_of(x)}`, not `{INDEX}`")


def _const(e: Const, here: Visible) -> Found:
    found = parts(e.dtype)
    if found is None:
        yield here.fault("MS155", f"`{e.dtype}` is not an element type")
        return
    match found.scalar, e.value:
        case ("bool", bool()):
            return
        case (scalar, int() as v) if is_integer(scalar) and not isinstance(v, bool):
            n = bits(scalar)
            lo, hi = (0, 2**n - 1) if is_unsigned(scalar) else (-(2 ** (n - 1)), 2 ** (n - 1) - 1)
            if lo <= v <= hi:
                return
        case (scalar, float() | int() as v) if is_float(scalar) and not isinstance(v, bool):
            if (isinstance(v, float) and not isfinite(v)) or has_finite(v, scalar):
                return
    yield here.fault("MS153", f"{e.value!r} is not a value of type `{e.dtype}`")


def _symbol(e: Symbol, here: Visible) -> Found:
    known = here.symbols.get(e.name)
    if known is None:
        yield here.fault("MS158", f"the size `{e.name}` is not declared", "dynamic sizes are listed by the program")
    elif known != e.domain:
        yield here.fault("MS158", f"the symbol `{e.name}` has two domains")
    match e.domain, e.position:
        case PerfectTile(n=n) | FreeTile(n=n) | PartitionedTile(n=n), int() as k if 0 <= k < n:
            pass
        case PerfectTile() | FreeTile() | PartitionedTile(), _:
            yield here.fault("MS158", f"`{e.text}` is not a factor of its tile")
        case _, int():
            yield here.fault("MS158", f"`{e.name}` has no factors", "only tiles do")
        case DynamicRange(lo=lo, hi=hi), _ if lo > hi:
            yield here.fault("MS158", f"the size `{e.name}` has no value from {lo} to {hi}")
    extent = extent_of(e.domain)
    if extent is not None:
        yield from size(extent, here, f"the extent of `{e.name}`")


def _binary(e: Binary, here: Visible) -> Found:
    left, right = dtype_of(e.left), dtype_of(e.right)
    if e.op not in BINARY_OPS:
        yield here.fault("MS155", f"there is no operator `{e.op}`")
    elif left != right:
        yield here.fault("MS153", f"`{print_expr(e)}` is of `{left}` and `{right}`")
    elif not _operates(e.op, left):
        yield here.fault("MS153", f"`{e.op}` does not work on `{left}`: `{print_expr(e)}`")


def _operates(op: str, dtype: str) -> bool:
    """Whether an operator takes operands of a type."""
    boolean, integer = dtype.startswith("bool"), is_integer(dtype)
    if op in LOGICAL:
        return boolean
    if op in COMPARISONS:
        return not boolean or op in ("==", "!=")
    if op in SHIFTS or op in ("//", "%"):
        return integer
    if op in BITS:
        return integer or boolean
    return op in ARITHMETIC and not boolean and (op != "/" or is_float(dtype))


def _unary(op: str, dtype: str, e: Expr, here: Visible) -> Found:
    if op not in ("-", "not"):
        yield here.fault("MS155", f"there is no operator `{op}`")
    elif (op == "not") != dtype.startswith("bool"):
        yield here.fault("MS153", f"`{op}` does not work on `{dtype}`: `{print_expr(e)}`")


def _call(e: Call, here: Visible) -> Found:
    if parts(e.dtype) is None:
        yield here.fault("MS155", f"`{e.dtype}` is not an element type")
    function = FUNCTIONS.get(e.name)
    if function is None:
        yield here.fault("MS155", f"there is no function `{e.name}`")
        return
    if len(e.args) != function.arity:
        yield here.fault("MS155", f"`{e.name}` takes {function.arity} arguments, not {len(e.args)}")
        return
    dtype = dtype_of(e.args[0])
    for x in e.args[1:]:
        if dtype_of(x) != dtype:
            yield here.fault("MS153", f"`{e.name}` of `{dtype}` and `{dtype_of(x)}`")
    if not function.takes(dtype):
        yield here.fault("MS153", f"`{e.name}` does not work on `{dtype}`")
    elif e.dtype != function.result(dtype):
        yield here.fault("MS153", f"`{e.name}` to `{e.dtype}` of `{dtype}`")
