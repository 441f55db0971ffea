"""The size parameters of a program: numbers, dynamic sizes, and the decisions of a printed parametric program."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index as index_of
from typing import SupportsIndex

from mslang.diagnostics import MsError, Span, problem
from mslang.ir.expr import (
    Choice,
    Const,
    Domain,
    DynamicRange,
    Expr,
    FreeTile,
    PartitionedTile,
    PerfectTile,
    Symbol,
    Uniform,
)
from mslang.sema.adapt import check_fits
from mslang.sema.expressions import index, infer
from mslang.sema.report import failure, unknown
from mslang.sema.scope import Meaning, Scope, SizeName, TileName
from mslang.suggestions import listed
from mslang.syntax import tree

GREATEST = 2**31 - 1
"""The largest dynamic size, if the declaration has none."""

LARGEST = 2**47
"""The largest dynamic size that may be declared: no process has so many bytes."""

Sizes = Mapping[str, int | Symbol]

KINDS: Mapping[str, tuple[str, ...]] = {
    "dyn": ("range", "multiple", "buckets"),
    "perfect_tile": ("extent", "n", "max_inner"),
    "tile": ("extent", "n", "max_inner"),
    "partitioned_tile": ("extent", "n", "at", "factor"),
    "choose": ("values", "weights"),
    "uniform": ("lo", "hi"),
}
"""The kinds of sizes and the names of their arguments. Those after `dyn` are decisions, in printed programs."""


def whole(sizes: Mapping[str, object]) -> Sizes:
    """Sizes as Python's integers; NumPy's are accepted, too.

    Raises:
        MsError: MS112, a size is not a whole number.

    >>> whole({"M": 4})
    {'M': 4}
    """
    return {name: _whole(name, value) for name, value in sizes.items()}


def _whole(name: str, value: object) -> int | Symbol:
    if isinstance(value, Symbol):
        return value
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        # `program(sizes = {"M": 4})` is how a space takes them.
        help = f"give each by its name: `{next(iter(value))} = …`" if isinstance(value, Mapping) and value else None
        raise MsError(problem("MS112", f"size `{name}` is {value!r}", why="a size is a whole number", help=help))
    return index_of(value)


def declared(s: tree.SizeParam, given: int | Symbol | None, scope: Scope, open_sizes: bool) -> Meaning:
    """What a size parameter means, given the caller's value.

    Args:
        s: the parameter.
        given: the value asked for, if any.
        scope: the sizes before it.
        open_sizes: a size without a value stands for any size, instead of being refused.
    """
    domain = None if s.kind is None else size_domain(s.kind, scope)
    if isinstance(given, Symbol):
        return SizeName(given)
    if given is not None:
        return SizeName(_checked(given, domain, s))
    match domain:
        case None:
            pass
        case PerfectTile(n=n) | FreeTile(n=n) | PartitionedTile(n=n):
            return TileName(domain, n)
        case _ if s.default is None or not isinstance(domain, DynamicRange):
            return SizeName(Symbol(s.name.text, domain))
    if s.default is not None:
        return SizeName(_default(s, s.default, domain, scope))
    if open_sizes:
        return SizeName(Symbol(s.name.text, DynamicRange(1, GREATEST)))
    raise failure(
        "MS112",
        s.name,
        f"size `{s.name.text}` has no value",
        help=f"give one (`--set {s.name.text}=128`, `p[128]`), or a default: `{s.name.text} = 128`",
    )


def _default(s: tree.SizeParam, e: tree.Expr, domain: Domain | None, scope: Scope) -> Expr:
    value = index(e, scope)
    return _checked(int(value.value), domain, s) if isinstance(value, Const) else value


def _checked(value: int, domain: Domain | None, s: tree.SizeParam) -> Const:
    at = s.default if s.default is not None else s.name
    if value < 0:
        raise failure("MS112", at, f"size `{s.name.text}` is {value}", why="a size is at least 0")
    match domain:
        case DynamicRange(lo=lo, hi=hi) if not lo <= value <= hi:
            raise failure("MS112", at, f"size `{s.name.text}` is {value}", why=f"it is declared from {lo} to {hi}")
        case DynamicRange(multiple=m) if value % m:
            raise failure("MS112", at, f"size `{s.name.text}` is {value}", why=f"it is declared a multiple of {m}")
    return Const(value)


# ------------------------------------------------------------------ kinds of sizes
def size_domain(kind: tree.Expr, scope: Scope) -> Domain:
    """The domain that `dyn(1..4096, multiple = 8)` and the like describe."""
    match kind:
        case tree.Ref(name=tree.Name(text="dyn")):
            return DynamicRange(1, GREATEST)
        case tree.Call(callee=tree.Ref(name=name)) if name.text in KINDS:
            return _domain(name.text, _arguments(kind, name.text, KINDS[name.text]), kind, scope)
        case tree.Ref(name=name) | tree.Call(callee=tree.Ref(name=name)):
            raise MsError(
                unknown(
                    "MS112",
                    name,
                    "kind of size",
                    name.text,
                    KINDS,
                    help="a size known only at the call is `dyn(1..4096, multiple = 8)`",
                )
            )
    raise failure("MS112", kind, "this is not a kind of size", help="write `dyn(1..4096, multiple = 8)`")


def _arguments(call: tree.Call, kind: str, names: tuple[str, ...]) -> dict[str, tree.Expr]:
    found: dict[str, tree.Expr] = {}
    for k, a in enumerate(call.args):
        name = a.name.text if a.name is not None else names[k] if k < len(names) and not a.splat else None
        if name not in names or name in found:
            help = f"it takes {listed([f'`{n}`' for n in names], 'and')}"
            if a.name is not None and name not in names:
                raise MsError(unknown("MS107", a.name, "argument", a.name.text, names, help=help, of=kind))
            raise failure("MS107", a, f"`{kind}` takes no such argument", help=help)
        found[name] = a.value
    return found


def _domain(kind: str, args: dict[str, tree.Expr], at: tree.Call, scope: Scope) -> Domain:
    def number(name: str, default: int | None = None) -> int:
        if name not in args:
            if default is None:
                raise failure("MS107", at, f"`{kind}` needs `{name}`")
            return default
        return constant_int(args[name], scope)

    cap = number("max_inner") if "max_inner" in args else None
    match kind:
        case "dyn":
            return _dynamic(args, at.span, scope, number("multiple", 1))
        case "perfect_tile":
            return PerfectTile(_extent(args, at, scope), number("n"), cap)
        case "tile":
            return FreeTile(_extent(args, at, scope), number("n"), cap)
        case "partitioned_tile":
            return PartitionedTile(_extent(args, at, scope), number("n"), number("at"), number("factor"))
        case "uniform":
            return Uniform(number("lo"), number("hi"))
    values = tuple(constant_int(x, scope) for x in _list(args.get("values"), at))
    weights = tuple(_weight(x, scope) for x in _list(args["weights"], at)) if "weights" in args else None
    return Choice(values, weights)


def _dynamic(args: dict[str, tree.Expr], at: Span, scope: Scope, multiple: int) -> DynamicRange:
    match args.get("range"):
        case None:
            lo, hi = multiple if 1 <= multiple <= GREATEST else 1, GREATEST
        case tree.Binary(op="..", left=left, right=right):
            lo, hi = constant_int(left, scope), constant_int(right, scope)
        case other:
            raise failure("MS112", other, "the range of a dynamic size is `smallest..largest`")
    if not 1 <= lo <= hi:
        raise failure("MS112", at, f"no size is from {lo} to {hi}", why="a size is at least 1")
    if hi > LARGEST:
        why = "a size is at most 2**47: a process cannot address more"
        raise failure("MS112", at, f"the largest size is {hi}", why=why)
    if multiple < 1 or (lo - 1) // multiple == hi // multiple:
        raise failure("MS112", at, f"no size from {lo} to {hi} is a multiple of {multiple}")
    return DynamicRange(lo, hi, multiple, _buckets(args.get("buckets"), lo, hi, multiple, scope))


def _buckets(e: tree.Expr | None, lo: int, hi: int, multiple: int, scope: Scope) -> tuple[int, ...]:
    """The largest sizes of the buckets of a range, without the last."""
    if e is None:
        return ()
    if not isinstance(e, tree.List):
        raise failure("MS112", e, "`buckets` is a list of sizes", help="write `buckets = [16, 256]`")
    ends = tuple(constant_int(x, scope) for x in e.items)
    for before, end in zip((lo - 1, *ends), ends, strict=False):
        if not before < end < hi or end // multiple == before // multiple:
            why = f"each is the largest size of a bucket: they ascend from {lo} to below {hi}"
            why += f", with a multiple of {multiple} in each" if multiple > 1 else ""
            raise failure("MS112", e, f"{end} does not end a bucket", why=why)
    if ends and hi // multiple == ends[-1] // multiple:
        raise failure("MS112", e, f"no multiple of {multiple} is greater than {ends[-1]}")
    return ends


def _extent(args: dict[str, tree.Expr], at: tree.Call, scope: Scope) -> Expr:
    if "extent" not in args:
        raise failure("MS107", at, "a tile needs the `extent` that it divides")
    return index(args["extent"], scope)


def _list(e: tree.Expr | None, at: tree.Call) -> tuple[tree.Expr, ...]:
    if not isinstance(e, tree.List):
        raise failure("MS107", at, "a list of numbers is needed")
    return e.items


def _weight(e: tree.Expr, scope: Scope) -> float:
    value = infer(e, scope).expr
    if not isinstance(value, Const):
        raise failure("MS113", e, "expected a number that is known here")
    check_fits(value, "f64", e)
    return float(value.value)


def constant_int(e: tree.Expr, scope: Scope) -> int:
    """The integer that an expression over sizes is, known here."""
    match infer(e, scope).expr:
        case Const(value=bool()):
            pass
        case Const(value=int() as v):
            return v
    raise failure("MS113", e, "expected a number that is known here")
