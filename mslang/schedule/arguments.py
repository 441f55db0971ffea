"""Arguments of operations: bound to their parameters, checked by kind, lowered for a primitive, written in a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.expr import Expr, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.visit import free_vars, substitute
from mslang.ops.signature import Kind, Param, Required, Signature
from mslang.ops.words import ACCESSES
from mslang.schedule.handles import Handle
from mslang.schedule.instruction import Argument, Condition, Operand
from mslang.schedule.items import ItemValue
from mslang.schedule.values import HOLE, Hole, Location, describe, lift, loops_in, variable_of
from mslang.sema.intrin import intrin_from
from mslang.sema.named_intrin import named_intrin
from mslang.suggestions import did_you_mean
from mslang.transform.outcome import Handle as Ref

Bound = dict[str, object]
"""Arguments by parameter, with defaults filled in."""

_HANDLES = {
    Kind.LOOP: ("loop",),
    Kind.BLOCK: ("block",),
    Kind.LOOP_OR_BLOCK: ("loop", "block"),
    Kind.BUFFER: ("buffer",),
    Kind.LOCATION: ("loop",),
    Kind.LOOP_OR_BLOCKS: ("loop",),
}
_ELEMENTS = {
    Kind.LOOPS: Kind.LOOP,
    Kind.BLOCKS: Kind.BLOCK,
    Kind.BUFFERS: Kind.BUFFER,
    Kind.LOOP_OR_BLOCKS: Kind.BLOCK,
    Kind.SIZES: Kind.SIZE,
}
_SCALARS: Mapping[Kind, tuple[type, ...]] = {
    Kind.INT: (int,),
    Kind.FLOAT: (int, float),
    Kind.BOOL: (bool,),
    Kind.STR: (str,),
    Kind.SCOPE: (str,),
    Kind.AXIS: (str,),
    Kind.TAIL: (str,),
    Kind.ACCESS: (str,),
    Kind.DTYPE: (str,),
}


def bind(signature: Signature, args: Sequence[object], kwargs: Mapping[str, object]) -> Bound:
    """Arguments by parameter.

    Raises:
        ScheduleError: MS205, an argument is missing, superfluous, unknown or given twice.
    """
    positional = [p for p in signature.params if not p.keyword]
    bound: Bound = {}
    rest = list(args)
    for p in positional:
        if p.variadic:
            bound[p.name], rest = tuple(rest), []
        elif rest:
            bound[p.name] = rest.pop(0)
    if rest:
        raise _misuse(signature, f"takes at most {len(positional)} positional arguments, {len(args)} are given")
    names = {p.name for p in signature.params}
    for name, value in kwargs.items():
        if name not in names:
            raise _misuse(signature, f"has no parameter `{name}`")
        if name in bound and bound[name] != ():
            raise _misuse(signature, f"`{name}` is given twice")
        bound[name] = value
    for p in signature.params:
        if p.name not in bound:
            if isinstance(p.default, Required):
                raise _misuse(signature, f"`{p.name}` is missing")
            bound[p.name] = p.default
    return bound


def refuse_keywords(callee: str, kwargs: Iterable[str], known: Iterable[str]) -> None:
    """Reject named arguments that a function does not take.

    Raises:
        ScheduleError: MS205; the help names the parameter that was probably meant.
    """
    names = list(known)
    for name in kwargs:
        if name not in names:
            help = did_you_mean(name, names) or f"it takes {', '.join(names) or 'no named arguments'}"
            raise ScheduleError(problem("MS205", f"`{callee}` has no parameter `{name}`", help=help))


def _misuse(signature: Signature, message: str) -> ScheduleError:
    return ScheduleError(problem("MS205", f"`{signature.name}` {message}", help=f"it is `{signature.text}`"))


def resolved(signature: Signature, bound: Bound) -> Bound:
    """Arguments with each intrinsic, given by name or as text, resolved.

    Raises:
        MsError: an intrinsic is unknown or has errors.
    """
    out = dict(bound)
    for p in signature.params:
        if p.kind is Kind.INTRIN:
            match out[p.name]:
                case ItemValue(found=found, text=text):
                    out[p.name] = intrin_from(found, text)
                case str() as text:
                    out[p.name] = named_intrin(text)
    return out


def lowered(op: str, param: Param, value: object, resolve: Callable[[Handle], Ref]) -> object:
    """An argument in the form that a primitive takes: handles as references, sizes as expressions.

    Raises:
        ScheduleError: MS203, the argument has the wrong kind; MS211, it contains a dead handle.
    """
    if param.variadic:
        if not isinstance(value, tuple):
            raise _wrong(op, param, value)
        return tuple(_lowered(op, param, param.kind, x, resolve) for x in value)
    if value is None and (param.optional or param.default is None):
        return None
    return _lowered(op, param, param.kind, value, resolve)


def _lowered(op: str, param: Param, kind: Kind, value: object, resolve: Callable[[Handle], Ref]) -> object:
    match value:
        case Handle(kind=k) if k in _HANDLES.get(kind, ()):
            return resolve(value)
        case Location(loop=Handle() as loop) if kind is Kind.LOCATION:
            return resolve(loop)
        case tuple() if kind in _ELEMENTS:
            return tuple(_lowered(op, param, _ELEMENTS[kind], x, resolve) for x in value)
        case tuple() if kind is Kind.FACTORS:
            return tuple(None if isinstance(x, Hole) or x is None else _size(op, param, x) for x in value)
        case IndexMap() if kind is Kind.REGION_MAP or (kind is Kind.INDEX_MAP and not value.has_ranges):
            return value
        case Intrin() if kind is Kind.INTRIN:
            return value
        case Expr() if kind is Kind.CONDITION:
            return _condition(op, value, resolve)
        case Expr() if loops_in(value):
            raise _wrong(op, param, value)
        case tuple() if kind in (Kind.VALUES, Kind.VALUE):
            return tuple(_lowered(op, param, Kind.VALUE, x, resolve) for x in value)
        case bool() | int() | float() | str() | Expr() if kind is Kind.VALUE:
            return value
        case bool() | int() | float() | Expr() if kind is Kind.PADDING:
            return value
        case IndexMap() if kind is Kind.PADDING and not value.has_ranges:
            return value
        case bool() if kind is Kind.CONDITION:
            return lift(value)
        case bool() if kind is not Kind.BOOL:
            raise _wrong(op, param, value)
    if kind is Kind.SIZE:
        return _size(op, param, value)
    if kind is Kind.ACCESS and value not in ACCESSES:
        raise _wrong(op, param, value)
    if kind in _SCALARS and isinstance(value, _SCALARS[kind]):
        return value
    raise _wrong(op, param, value)


def _condition(op: str, e: Expr, resolve: Callable[[Handle], Ref]) -> Expr:
    """A condition in which loops have the names of the current program."""
    loops = loops_in(e)
    bare = sorted(free_vars(e) - loops.keys())
    if bare:
        raise ScheduleError(
            problem(
                "MS203",
                f"the condition of `{op}` names `{bare[0]}`, which no handle gives",
                why="a trace must say which loop is meant, whatever it is called",
                help="compare a handle of the loop: `schedule.axis(block, name)`, in text `block.axis`",
            )
        )
    return substitute(e, {name: Var(resolve(loop).name) for name, loop in loops.items()})


def _size(op: str, param: Param, value: object) -> Expr:
    size = None if isinstance(value, bool) else lift(value)
    if size is None or loops_in(size):
        raise _wrong(op, param, value)
    return size


def _wrong(op: str, param: Param, value: object) -> ScheduleError:
    what = "`read` or `write`" if param.kind is Kind.ACCESS else param.kind.with_article
    given = value if isinstance(value, str) and param.kind is Kind.ACCESS else describe(value)
    help = None
    if isinstance(value, str) and param.kind in _HANDLES:
        help = "from Python, `schedule.get(name)` gives a block or buffer, `schedule.axis(block, name)` a loop"
    elif isinstance(value, int) and param.kind is Kind.FACTORS:
        help = f"write a factor for each new loop, None for one that is inferred: `[None, {value}]`"
    elif callable(value) and param.kind in (Kind.INDEX_MAP, Kind.PADDING):
        help = "`schedule.index_map(f)` makes a map of a function"
    elif isinstance(value, Expr) and loops_in(value):
        help = "the extent of a loop is `loop.extent()`"
    return ScheduleError(problem("MS203", f"`{op}` takes {what} as `{param.name}`, not {given}", help=help))


def written(value: object, operand: Callable[[Handle], Operand]) -> Argument:
    """An argument in the form that a trace stores."""
    match value:
        case Handle():
            return operand(value)
        case Location(name=str() as name):
            return Operand(name)
        case Location(loop=Handle() as loop):
            return operand(loop)
        case Location(label=label):
            return label
        case Hole():
            return None
        case ItemValue(text=text):
            return text
        case Expr() if loops := loops_in(value):
            names = {name: f"loop{k}" for k, name in enumerate(loops)}
            return Condition(
                substitute(value, {old: Var(new) for old, new in names.items()}),
                tuple((names[name], operand(loop)) for name, loop in loops.items()),
            )
        case None | bool() | int() | float() | str() | Expr() | IndexMap() | Intrin():
            return value
        case tuple():
            return tuple(written(x, operand) for x in value)
    raise ScheduleError(problem("MS203", f"{describe(value)} is not an argument of an operation"))


def unwritten(argument: Argument, kind: Kind, resolve: Callable[[Operand], object]) -> object:
    """The original argument for its form in a trace: the inverse of `written`."""
    match argument:
        case Operand():
            return resolve(argument)
        case Condition(expr=e, loops=loops):
            return substitute(e, {name: _loop_variable(resolve(operand)) for name, operand in loops})
        case tuple():
            return tuple(unwritten(x, kind, resolve) for x in argument)
        case None if kind is Kind.FACTORS:
            return HOLE
        case "root" | "inline" as label if kind is Kind.LOCATION:
            return Location(label)
    return argument


def _loop_variable(value: object) -> Var:
    if isinstance(value, Handle) and value.kind == "loop":
        return variable_of(value)
    raise ScheduleError(problem("MS203", f"a condition is about sizes and loops, not {describe(value)}"))
