"""Evaluating the expressions of schedules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mslang.diagnostics import MsError, ScheduleError, problem
from mslang.ir.expr import Expr, Symbol
from mslang.ir.expr import Var as IrVar
from mslang.ir.program import SCOPES
from mslang.ops.library import LIBRARY
from mslang.ops.signature import Group, Kind, Signature
from mslang.ops.words import ACCESSES, ELEMENT_TYPES, TAILS, WORDS
from mslang.schedule import values
from mslang.schedule.arguments import refuse_keywords
from mslang.schedule.frames import Frame, element_name
from mslang.schedule.handles import Handle
from mslang.schedule.items import ItemValue, NativeValue, SizedProgram
from mslang.schedule.session import Names
from mslang.schedule.values import HOLE, Location, Outcome, describe
from mslang.sema.consteval import NUMBERS
from mslang.sema.evaluation_limits import ELEMENTS, STEPS_OF_SYMBOLIC, excess, too_much
from mslang.sema.module import Found
from mslang.sema.named_intrin import library_item
from mslang.sema.native import Native
from mslang.sema.program import sizes_by_position
from mslang.sema.refer import dotted_name
from mslang.sema.report import failure
from mslang.sema.values import const_value
from mslang.suggestions import did_you_mean
from mslang.syntax import tree
from mslang.target.description import Target
from mslang.transform.registry import OPERATIONS

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

WORDS_OF: Mapping[Kind | None, Collection[str]] = {
    Kind.TAIL: TAILS,
    Kind.ACCESS: ACCESSES,
    Kind.SCOPE: SCOPES,
    Kind.DTYPE: ELEMENT_TYPES,
}
"""The words that parameters of a kind take; there they evaluate to themselves even if something else has their name."""


def evaluate(it: Interpreter, e: tree.Expr, frame: Frame, names: Names = ()) -> object:
    """The value of an expression.

    Args:
        it: the interpreter.
        e: the expression.
        frame: its context.
        names: names for the results, if it is a call.

    Raises:
        ScheduleError: with a diagnostic at the offending part.
    """
    it.spend(1, e)
    value = _value(it, e, frame, names)
    over = excess(value) if isinstance(e, _MADE) else None
    if over is not None:
        raise MsError(too_much(over).at(e.span))
    if isinstance(value, Expr) and isinstance(e, tree.Binary | tree.Unary):
        it.spend(STEPS_OF_SYMBOLIC, e)
    return value


_MADE = tree.Number | tree.Binary | tree.List | tree.Group | tree.Comprehension
"""Expressions that create a new value."""


def _value(it: Interpreter, e: tree.Expr, frame: Frame, names: Names) -> object:
    match e:
        case tree.Ref() | tree.Member():
            return _named(it, e, frame)
        case tree.Number(value=v):
            return v
        case tree.Call():
            return _call(it, e, frame, names)
        case tree.String(value=v):
            return v
        case tree.Bool(value=v):
            return v
        case tree.Size(bytes=v):
            return v
        case tree.Hole():
            return HOLE
        case tree.Index():
            return _index(it, e, frame)
        case tree.Binary(op=".."):
            return _range(it, e, frame)
        case tree.Binary(op="and" | "or" as op, left=a, right=b):
            return _logic(it, op, a, b, frame)
        case tree.Binary(op="==" | "!=" as op, left=a, right=b) if (which := _fork_compared(a, b, frame)) is not None:
            outcome, case = which
            return (outcome.label == _case_named(outcome, case)) is (op == "==")
        case tree.Binary(op=op, left=a, right=b):
            left, right = evaluate(it, a, frame), evaluate(it, b, frame)
            return _at(e, frame, lambda: values.combine(op, left, right))
        case tree.Unary(op=op, operand=x):
            inner = evaluate(it, x, frame)
            return _at(
                e, frame, lambda: values.invert(inner) if op == "not" else values.negate(inner) if op == "-" else inner
            )
        case tree.List(items=items):
            return tuple(evaluate(it, x, frame) for x in items)
        case tree.Group(items=(inner,)):
            return evaluate(it, inner, frame, names)
        case tree.Group(items=items):
            return tuple(evaluate(it, x, frame) for x in items)
        case tree.Comprehension():
            return tuple(_comprehended(it, e, frame))
        case tree.IndexMap(params=params, results=results):
            inner_frame = frame.inner({p.text: IrVar(p.text) for p in params}, frame.address)
            made = [_result(it, x, inner_frame) for x in results]
            return _at(e, frame, lambda: values.index_map(tuple(p.text for p in params), made))
        case tree.Bad():
            raise failure("MS207", e, "this could not be parsed")
    raise TypeError(f"not an expression: {e!r}")


def _result(it: Interpreter, e: tree.Expr, frame: Frame) -> object:
    """A result of an index map; for a range its two ends."""
    match e:
        case tree.Binary(op="..", left=low, right=high):
            return evaluate(it, low, frame), evaluate(it, high, frame)
        case tree.Group(items=(inner,)):
            return _result(it, inner, frame)
    return evaluate(it, e, frame)


def _at(node: tree.Node, frame: Frame, action: Callable[[], object]) -> object:
    """Run an action; its errors are located at a node."""
    try:
        return action()
    except MsError as error:
        raise frame.blame(error, node.span) from error


# ------------------------------------------------------------------ names
def _named(it: Interpreter, e: tree.Ref | tree.Member, frame: Frame) -> object:
    if isinstance(e, tree.Ref):
        name = e.name.text
        found = lookup(it, name, frame)
        if found is None:
            _refuse_faulty_const(e, name, frame)
            known = [*frame.names, *WORDS, *it.block_names(), *(frame.place.module.names if frame.place.module else ())]
            raise failure("MS201", e, f"unknown name `{name}`", help=did_you_mean(name, known))
        return None if found is NONE else found
    dotted = dotted_name(e)
    if dotted is not None and lookup(it, dotted.partition(".")[0], frame, words=False) is None:
        if dotted in WORDS:
            return dotted
        module = frame.place.module
        # A trace names instructions in full, and is of no module or of one that does not name them.
        thing = (module.find(dotted) if module is not None else None) or library_item(dotted)
        if thing is not None:
            return _thing(it, thing, dotted, frame)
    base = evaluate(it, e.base, frame)
    return _at(e, frame, lambda: _member(it, base, e.name.text))


def _refuse_faulty_const(e: tree.Ref, name: str, frame: Frame) -> None:
    thing = frame.place.module.find(name) if frame.place.module is not None else None
    if isinstance(thing, Found) and isinstance(thing.item, tree.Const):
        raise failure("MS201", e, f"the const `{name}` has no value", why="its definition is faulty")


class _NoneWord:
    """The word `none`, as distinct from an unknown name."""


NONE = _NoneWord()


def lookup(it: Interpreter, name: str, frame: Frame, *, words: bool = True) -> object | None:
    """The value of a name: a local one, a block or buffer, an item of the module, or a word; None if it is unknown."""
    if name in frame.names:
        return frame.names[name]
    if name == "machine":
        return it.machine
    found = it.program_name(name)
    if found is not None:
        return found
    thing = frame.place.module.find(name) if frame.place.module is not None else None
    if thing is not None:
        return _thing(it, thing, name, frame)
    if not words:
        return None
    if name in ("root", "inline"):
        return Location(name)
    return name if name in WORDS else NONE if name == "none" else NUMBERS.get(name)


def _thing(it: Interpreter, thing: object, name: str, frame: Frame) -> object | None:
    match thing:
        case Found(item=tree.Const()):
            assert frame.place.module is not None
            return const_value(frame.place.module, name)
        case Found(item=tree.Target()):
            assert frame.place.module is not None
            return it.target(frame.place.module, name)
        case Found(item=tree.Program()):
            return SizedProgram(thing)
        case Found():
            return ItemValue(thing, name)
        case Native(role="target"):
            assert frame.place.module is not None
            return it.target(frame.place.module, name)
        case Native():
            return NativeValue(thing)
    return None


def _member(it: Interpreter, base: object, name: str) -> object:
    match base:
        case Handle(kind="block"):
            return it.session.axis(base, name)
        case Target(fields=fields):
            if name in fields:
                return fields[name]
            raise ScheduleError(
                problem(
                    "MS204",
                    f"target `{base.name}` has no field `{name}`",
                    help=did_you_mean(name, fields),
                )
            )
    raise ScheduleError(problem("MS204", f"{describe(base)} has no member `{name}`"))


# ------------------------------------------------------------------ operators
def _logic(it: Interpreter, op: str, a: tree.Expr, b: tree.Expr, frame: Frame) -> object:
    left = evaluate(it, a, frame)
    if isinstance(left, bool) and left is (op == "or"):
        return left
    right = evaluate(it, b, frame)
    return _at(b, frame, lambda: values.both(op, left, right))


def _fork_compared(a: tree.Expr, b: tree.Expr, frame: Frame) -> tuple[Outcome, tree.Expr] | None:
    """A fork's outcome and the other operand, if one side of a comparison is a fork."""
    for side, other in ((a, b), (b, a)):
        found = frame.names.get(side.name.text) if isinstance(side, tree.Ref) else None
        if isinstance(found, Outcome):
            return found, other
    return None


def _case_named(outcome: Outcome, e: tree.Expr) -> str:
    name = e.name.text if isinstance(e, tree.Ref) else e.value if isinstance(e, tree.String) else None
    if name in outcome.cases:
        return name or ""
    raise failure(
        "MS210",
        e,
        f"the fork has no case `{name}`" if name is not None else "a fork is compared with one of its cases",
        why=f"its cases are {', '.join(outcome.cases)}",
        help=None if name is None else did_you_mean(name, outcome.cases),
    )


def _range(it: Interpreter, e: tree.Binary, frame: Frame) -> tuple[int, ...]:
    lo, hi = evaluate(it, e.left, frame), evaluate(it, e.right, frame)
    if not (isinstance(lo, int) and isinstance(hi, int)):
        raise failure(
            "MS203",
            e,
            "the bounds of a range in a schedule are numbers",
            why="how often something is done is structure",
        )
    if hi - lo > ELEMENTS:
        raise MsError(too_much(f"a range of more than {ELEMENTS} numbers").at(e.span))
    it.spend((hi - lo) // 16, e) if hi > lo else None
    return tuple(range(lo, hi))


def _index(it: Interpreter, e: tree.Index, frame: Frame) -> object:
    base = evaluate(it, e.base, frame)
    items = [evaluate(it, x, frame) for x in e.items]
    match base, items:
        case SizedProgram(found=found), _:
            return _at(e, frame, lambda: SizedProgram(found, _sizes(found, items)))
        case tuple(), [int() as k]:
            if -len(base) <= k < len(base):
                return base[k]
            raise failure("MS203", e, f"a list of {len(base)} has no element {k}")
    raise failure("MS203", e, f"{describe(base)} cannot be indexed like this")


def _sizes(found: Found, items: Sequence[object]) -> tuple[tuple[str, int | Symbol], ...]:
    assert isinstance(found.item, tree.Program)
    wrong = next((x for x in items if not isinstance(x, int | Symbol)), None)
    if wrong is not None:
        raise ScheduleError(problem("MS203", f"a size is a number, not {describe(wrong)}"))
    return tuple(sizes_by_position(found.item, [x for x in items if isinstance(x, int | Symbol)]).items())


def _comprehended(it: Interpreter, e: tree.Comprehension, frame: Frame) -> Iterator[object]:
    for k, element in enumerate(elements(it, e.source, frame)):
        it.spend(1, e)
        inner = frame.inner(unpack(e.binders, element, e), frame.address.at(element_name(element, k)))
        if e.condition is None or it.truth(e.condition, inner):
            yield evaluate(it, e.element, inner)


def elements(it: Interpreter, e: tree.Expr, frame: Frame) -> tuple[object, ...]:
    """The elements of a list that a loop iterates over."""
    found = evaluate(it, e, frame)
    if not isinstance(found, tuple):
        raise failure("MS203", e, f"{describe(found)} is not a list")
    return found


def unpack(binders: Sequence[tree.Binder], value: object, at: tree.Node) -> dict[str, object]:
    """The values of the names of binders that a value, or the elements of a list, are bound to.

    Raises:
        MsError: MS206, their numbers differ.
    """
    if len(binders) == 1 and not binders[0].star:
        name = binders[0].name
        return {} if name is None else {name.text: value}
    items = value if isinstance(value, tuple) else (value,)
    star = next((k for k, b in enumerate(binders) if b.star), None)
    if star is None:
        if len(items) != len(binders):
            raise failure(
                "MS206",
                at,
                f"{len(binders)} names for {len(items)} values",
                help="`_` discards a value, `*rest` takes all that remain",
            )
        spread: list[object] = list(items)
    else:
        after = len(binders) - star - 1
        if len(items) < len(binders) - 1:
            raise failure("MS206", at, f"at least {len(binders) - 1} values are needed, there are {len(items)}")
        spread = [*items[:star], tuple(items[star : len(items) - after]), *items[len(items) - after :]]
    return {b.name.text: x for b, x in zip(binders, spread, strict=True) if b.name is not None}


# ------------------------------------------------------------------ calls
def arguments(it: Interpreter, args: Sequence[tree.Arg], frame: Frame) -> tuple[list[object], dict[str, object]]:
    """The positional and the named arguments of a call."""
    positional: list[object] = []
    named: dict[str, object] = {}
    for a in args:
        value = evaluate(it, a.value, frame)
        if a.splat:
            if not isinstance(value, tuple):
                raise failure("MS203", a.value, f"`*` takes a list, not {describe(value)}")
            positional.extend(value)
        elif a.name is not None:
            if a.name.text in named:
                raise failure("MS205", a.name, f"`{a.name.text}` is given twice")
            named[a.name.text] = value
        else:
            positional.append(value)
    return positional, named


def _call(it: Interpreter, e: tree.Call, frame: Frame, names: Names) -> object:
    match e.callee:
        case tree.Ref(name=name):
            return _function(it, name.text, [], e, frame, names)
        case tree.Member(base=base, name=name):
            dotted = dotted_name(e.callee)
            if dotted is not None and lookup(it, dotted.partition(".")[0], frame, words=False) is None:
                thing = frame.place.module.find(dotted) if frame.place.module is not None else None
                if thing is not None:
                    args, kwargs = arguments(it, e.args, frame)
                    value = _thing(it, thing, dotted, frame)
                    return _at(e, frame, lambda: it.call_value(value, args, kwargs, e, frame))
            return _function(it, name.text, [evaluate(it, base, frame)], e, frame, names)
    raise failure("MS203", e, "only a name can be called")


_SHADOWING = Handle | ItemValue | NativeValue | SizedProgram
"""Values of names that may equal a word: where the word is expected, it takes precedence."""


def _take_words(
    operation: Signature, received: int, given: Sequence[tree.Arg], args: list[object], kwargs: dict[str, object]
) -> None:
    """Where a word is expected, such as the tail `pad`, it takes precedence over a handle or item of that name."""
    kinds = {p.name: p.kind for p in operation.params}
    plain = not any(p.variadic for p in operation.params) and not any(a.splat for a in given)
    position = received
    for a in given:
        word = a.value.name.text if isinstance(a.value, tree.Ref) else None
        if a.name is not None:
            if word in WORDS_OF.get(kinds.get(a.name.text), ()) and isinstance(kwargs[a.name.text], _SHADOWING):
                kwargs[a.name.text] = word
            continue
        if plain and position < len(operation.params):
            kind = operation.params[position].kind
            if word in WORDS_OF.get(kind, ()) and isinstance(args[position], _SHADOWING):
                args[position] = word
        position += 1


def _own(it: Interpreter, name: str, frame: Frame) -> Signature | None:
    """A user's own primitive with a name; an item of the text hides it."""
    if lookup(it, name, frame, words=False) is not None or it.builtin(name) is not None:
        return None
    return it.session.registry.own_named(name)


def _function(it: Interpreter, name: str, receiver: list[object], e: tree.Call, frame: Frame, names: Names) -> object:
    operation = OPERATIONS.get(name) or _own(it, name, frame)
    if operation is not None and operation.group is Group.SAMPLER:
        raise failure("MS207", e, f"`{name}` draws a decision", help=f"write `let x ~ {name}(…)`")
    if receiver and it.has_methods(receiver[0]):
        return _at(e, frame, lambda: it.method(receiver[0], name, e, frame))
    args, kwargs = arguments(it, e.args, frame)
    args = [*receiver, *args]
    if operation is not None and (not receiver or isinstance(receiver[0], Handle)):
        _take_words(operation, len(receiver), e.args, args, kwargs)
        return _at(e, frame, lambda: it.operation(name, args, kwargs, names, frame.site(e)))
    builtin = it.builtin(name)
    if builtin is not None:
        if name in LIBRARY and name != "sample":
            _at(e, frame, lambda: refuse_keywords(name, kwargs, (p.name for p in LIBRARY[name].params if p.keyword)))
        return _at(e, frame, lambda: builtin(it, args, kwargs, e, frame))
    value = lookup(it, name, frame, words=False)
    if value is None and operation is not None:
        return _at(e, frame, lambda: it.operation(name, args, kwargs, names, frame.site(e)))
    if value is None:
        reason = it.session.registry.problem(name)
        if reason is not None:
            raise frame.blame(ScheduleError(reason), e.span)
        known = it.session.registry.operations
        help = did_you_mean(name, (*known, *frame.names, *(frame.place.module.names if frame.place.module else ())))
        if receiver:
            raise failure("MS202", e, f"{describe(receiver[0])} has no operation `{name}`", help=help)
        raise failure("MS201", e, f"unknown name `{name}`", help=help)
    return _at(e, frame, lambda: it.call_value(value, args, kwargs, e, frame))
