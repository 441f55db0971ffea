"""Buffer types, places (`@ local(align = 64)`), regions and views."""

from __future__ import annotations

import math

from mslang.diagnostics import Diagnostic, Fix, MsError
from mslang.ir.dtype import SCALARS, parts, size_of
from mslang.ir.expr import ZERO, Const, Expr
from mslang.ir.program import LOOP_KINDS, SCOPES, Annotations, AttrValue, Buffer, Range, Region
from mslang.ir.region import point, range_between, whole
from mslang.sema.evaluation_limits import BYTES
from mslang.sema.expressions import check_rank, index, infer
from mslang.sema.foreign import TYPES
from mslang.sema.literals import retyped
from mslang.sema.names import buffer_names
from mslang.sema.report import failure, fault, unknown
from mslang.sema.scope import Broken, BufferName, Scope
from mslang.syntax import tree


def buffer(name: tree.Name, type: tree.Type, scope: Scope, default_scope: str = "global") -> Buffer:
    """The buffer that a declaration `name: type` makes."""
    if parts(type.name.text) is None:
        raise MsError(_unknown_type(type.name))
    if type.shape is None:
        fix = Fix("make it a zero-dimensional buffer", type.name.span, f"{type.name.text}[]")
        raise failure(
            "MS125", type, f"`{name.text}` needs a shape", help=f"a single value is `{type.name.text}[]`", fixes=(fix,)
        )
    shape = tuple(_extent(e, scope) for e in type.shape)
    _refuse_huge(name, type.name.text, shape)
    made = Buffer(name.text, type.name.text, shape, default_scope)
    return made if type.place is None else _placed(made, type.place, scope)


def _unknown_type(name: tree.Name) -> Diagnostic:
    ours = TYPES.get(name.text)
    if ours is None:
        known = "the element types are " + ", ".join(SCALARS)
        return unknown("MS117", name, "element type", name.text, SCALARS, help=known)
    fixes = (Fix(f"change to `{ours}`", name.span, ours),)
    return fault("MS117", name, f"unknown element type `{name.text}`", help=f"write `{ours}`", fixes=fixes)


def _refuse_huge(name: tree.Name, dtype: str, shape: tuple[Expr, ...]) -> None:
    known = [n.value for n in shape if isinstance(n, Const)]
    size = math.prod(known) * size_of(dtype)
    if size > BYTES:
        raise failure(
            "MS141",
            name,
            f"`{name.text}` has at least {size if size < 1 << 64 else '2**64'} bytes",
            why=f"a buffer has at most {BYTES} bytes (1 TiB)",
            help="make its dimensions smaller",
        )


def _extent(e: tree.Expr, scope: Scope) -> Expr:
    extent = index(e, scope)
    if isinstance(extent, Const) and extent.value < 1:
        raise failure("MS112", e, f"a dimension of {extent.value} elements", why="a buffer has at least 1 element")
    return extent


def _placed(made: Buffer, place: tree.Place, scope: Scope) -> Buffer:
    if place.text not in SCOPES:
        raise MsError(unknown("MS116", place.path_span, "scope", place.text, SCOPES))
    strides, offset, align = made.strides, made.offset, made.align
    for a in place.args:
        match a.name.text if a.name is not None else None:
            case "strides":
                strides = _strides(a.value, made, scope)
            case "offset":
                offset = index(a.value, scope)
            case "align":
                align = _literal_int(a.value, scope)
            case other:
                raise failure(
                    "MS116",
                    a,
                    f"a scope takes `strides`, `offset` and `align`, not `{other}`"
                    if other is not None
                    else "the arguments of a scope are named: `align = 64`",
                )
    return Buffer(made.name, made.dtype, made.shape, place.text, strides, offset, align)


def _strides(e: tree.Expr, made: Buffer, scope: Scope) -> tuple[Expr, ...]:
    if not isinstance(e, tree.List):
        raise failure("MS104", e, "strides are a list, one for each dimension")
    if len(e.items) != len(made.shape):
        raise failure("MS105", e, f"`{made.name}` has {len(made.shape)} dimensions, but {len(e.items)} strides")
    return tuple(index(x, scope) for x in e.items)


def _literal_int(e: tree.Expr, scope: Scope) -> int:
    match index(e, scope):
        case Const(value=int() as v):
            return v
    raise failure("MS113", e, "expected a number that is known here")


# ------------------------------------------------------------------ ranges and regions
def domain(e: tree.Expr, scope: Scope) -> Range:
    """The domain of a loop: `n` (from 0) or `a .. b`."""
    if isinstance(e, tree.Binary) and e.op == "..":
        found = range_between(index(e.left, scope), index(e.right, scope))
    else:
        found = Range(ZERO, index(e, scope))
    if isinstance(found.extent, Const) and found.extent.value < 0:
        raise failure(
            "MS127",
            e,
            f"a range of {found.extent.value} numbers",
            why="`a .. b` runs from `a` up to, not including, `b`",
        )
    return found


def region(e: tree.Expr, scope: Scope) -> Region:
    """A region `A[i, j0 .. j0 + 16]`; a bare `A` is all of it."""
    name = (
        e.name
        if isinstance(e, tree.Ref)
        else e.base.name
        if isinstance(e, tree.Index) and isinstance(e.base, tree.Ref)
        else None
    )
    if name is None:
        raise failure("MS127", e, "a region is a buffer with its indices: `A[i, j .. j + 16]`")
    match scope.get(name.text):
        case BufferName() as meaning:
            pass
        case Broken():
            raise MsError
        case _:
            raise MsError(unknown("MS101", name, "buffer", name.text, buffer_names(scope)))
    if isinstance(e, tree.Ref):
        return Region(name.text, whole(meaning.buffer))
    assert isinstance(e, tree.Index)
    check_rank(e, meaning)
    return Region(name.text, tuple(_dimension(x, scope) for x in e.items))


def _dimension(e: tree.Expr, scope: Scope) -> Range:
    if isinstance(e, tree.Binary) and e.op == "..":
        return domain(e, scope)
    return point(index(e, scope))


# ------------------------------------------------------------------ loop kinds and annotations
def loop_place(place: tree.Place | None, scope: Scope) -> tuple[str, Annotations]:
    """The kind of a loop and its annotations: `@ parallel("key" = 1)`."""
    if place is None:
        return "serial", ()
    if place.text not in LOOP_KINDS:
        raise MsError(unknown("MS116", place.path_span, "loop kind", place.text, LOOP_KINDS))
    notes: list[tuple[str, AttrValue]] = []
    for a in place.args:
        if a.name is None or a.splat:
            raise failure("MS116", a, 'the annotations of a loop are named: `@ serial("key" = 1)`')
        if any(key == a.name.text for key, _ in notes):
            raise failure("MS102", a.name, f"`{a.name.text}` is annotated twice")
        notes.append((a.name.text, attribute(a.value, scope)))
    return place.text, tuple(notes)


def attribute(e: tree.Expr, scope: Scope) -> AttrValue:
    """The value of an annotation: a literal, a list of such, or an expression over sizes."""
    match e:
        case tree.String(value=v):
            return v
        case tree.Bool(value=b):
            return b
        case tree.List(items=xs):
            return tuple(attribute(x, scope) for x in xs)
    value = infer(e, scope)
    if value.literal and isinstance(value.expr, Const):
        return value.expr.value
    if value.size and isinstance(value.expr, Const):
        return value.expr.value
    return retyped(value.expr, "f32" if value.literal == "float" else "i64") if value.literal else value.expr
