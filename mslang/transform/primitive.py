"""Primitives: functions of which a decorator makes operations of the language, built-in ones and a user's own."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Generic, ParamSpec, TypeVar

import msgspec

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.expr import Expr
from mslang.ir.find import all_buffers, blocks_of, path_to_loop
from mslang.ir.index_map import IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.ops.signature import REQUIRED, Group, Kind, Param, Signature
from mslang.transform.analysis.loop_kinds import require_atomic_updates, require_joined_lanes
from mslang.transform.kinds import Spread
from mslang.transform.outcome import BlockRef, BufferRef, Handle, LoopRef, Outcome, refuse

P = ParamSpec("P")
T = TypeVar("T")
Gives = type[LoopRef] | type[BlockRef] | type[BufferRef]

_KINDS: Mapping[object, Kind] = MappingProxyType(
    {
        LoopRef: Kind.LOOP,
        BlockRef: Kind.BLOCK,
        BufferRef: Kind.BUFFER,
        Expr: Kind.SIZE,
        IndexMap: Kind.INDEX_MAP,
        Intrin: Kind.INTRIN,
        int: Kind.INT,
        float: Kind.FLOAT,
        bool: Kind.BOOL,
        str: Kind.STR,
        object: Kind.VALUE,
        frozenset({LoopRef, BlockRef}): Kind.LOOP_OR_BLOCK,
    }
)
_LISTS: Mapping[object, Kind] = MappingProxyType(
    {
        LoopRef: Kind.LOOPS,
        BlockRef: Kind.BLOCKS,
        BufferRef: Kind.BUFFERS,
        Expr: Kind.SIZES,
        frozenset({Expr, type(None)}): Kind.FACTORS,
        object: Kind.VALUES,
        int: Kind.VALUES,
        str: Kind.VALUES,
    }
)


class Primitive(msgspec.Struct, Generic[P], frozen=True):
    """An operation with its implementation, which takes the program, then the arguments of the signature.

    Called, it is the function itself, so that primitives can be made of each other.
    """

    signature: Signature
    function: Callable[P, Outcome]

    @property
    def name(self) -> str:
        """What it is called."""
        return self.signature.name

    @property
    def doc(self) -> str:
        """Its documentation: the function's docstring."""
        return inspect.getdoc(self.function) or ""

    def __call__(self, *args: P.args, **named: P.kwargs) -> Outcome:
        """The function itself."""
        return self.function(*args, **named)

    def apply(self, program: Program, **args: object) -> Outcome:
        """Apply it, arguments by name; those of a variadic parameter as one sequence."""
        function: Callable[..., Outcome] = self.function
        spread = next((p.name for p in self.signature.params if p.variadic), None)
        if spread is None or _takes_list(function, spread):
            return function(program, **args)
        names = [p.name for p in self.signature.params]
        positional = [args.pop(n) for n in names[: names.index(spread)]]
        rest = args.pop(spread)
        assert isinstance(rest, tuple)
        return function(program, *positional, *rest, **args)

    def run(self, program: Program, **args: object) -> Outcome:
        """Apply it as `apply` does; what it gives is checked before anybody sees it.

        Raises:
            ScheduleError: it refuses; or MS397, it failed; or MS396, what it gives is not a well-formed program.
        """
        try:
            outcome = self.apply(program, **args)
        except MsError:
            raise
        except Exception as failure:
            raise refuse(
                "MS397",
                self.name,
                "this primitive failed",
                why=f"{type(failure).__name__}: {failure}",
                help=f"a primitive refuses by raising `mslang.refuse(…)`; fix {_place(self.function)}",
            ) from failure
        self._check(outcome)
        return outcome

    def _check(self, outcome: object) -> None:
        if not isinstance(outcome, Outcome):
            raise self._faulty(f"it gives {type(outcome).__name__}, not an Outcome")
        wrong = verify(outcome.program)
        if wrong:
            raise self._faulty(_first(wrong))
        kinds = [_kind(h) for h in outcome.handles]
        wanted = [k.value for k in self.signature.results]
        if self.signature.many:
            fits = len(kinds) >= len(wanted) - 1 and kinds[: len(wanted) - 1] == wanted[:-1]
            fits = fits and all(k == wanted[-1] for k in kinds[len(wanted) - 1 :])
        else:
            fits = kinds == wanted
        if not fits:
            raise self._faulty(
                f"it declares {', '.join(wanted) or 'no results'} and gives {', '.join(kinds) or 'none'}"
            )
        for handle in outcome.handles:
            if not _there(outcome.program, handle):
                raise self._faulty(f"it gives the {_kind(handle)} `{handle.name}`, which its program has not")

    def _faulty(self, why: str) -> MsError:
        return refuse(
            "MS396",
            self.name,
            "what this primitive gives is not a well-formed program",
            why=why,
            help=f"the fault is in {_place(self.function)}, not in the schedule; the program is as it was",
        )


def primitive(
    *,
    gives: Sequence[Gives] = (),
    many: bool = False,
    consumes: Sequence[str] = (),
    params: Mapping[str, Kind] = MappingProxyType({}),
    family: str = "own",
    name: str | None = None,
) -> Callable[[Callable[P, Outcome]], Primitive[P]]:
    """Make a primitive of a function `(program, …) -> Outcome`; its signature is read from the annotations.

    A package that names it as an entry point of the group `mslang.primitives` gives it to the language: text,
    traces, tuning, checker, editor and documentation then know it. Its docstring is its documentation.

    Args:
        gives: what handles it returns: `LoopRef`, `BlockRef` or `BufferRef`, in order.
        many: the last of them repeats.
        consumes: the parameters whose handles are dead afterwards.
        params: the kinds of parameters that annotations do not tell, such as `Kind.SCOPE` of a `str`.
        family: the heading under which the documentation has it.
        name: what it is called (default: the function's name).

    Raises:
        MsError: MS214, the function's parameters cannot be understood.

    >>> from mslang.ir.expr import Const
    >>> from mslang.transform.primitives.loops import split
    >>> @primitive(gives=(LoopRef,), many=True, consumes=("loop",))
    ... def halve(program: Program, loop: LoopRef, parts: int = 2) -> Outcome:
    ...     '''Split a loop into `parts`.'''
    ...     return split(program, loop, [Const(parts), None])
    >>> halve.signature.text
    'loop.halve(parts = 2) -> loop…'
    """

    def make(function: Callable[P, Outcome]) -> Primitive[P]:
        made = _params(function, params)
        called = name or function.__name__
        for consumed in consumes:
            if consumed not in [p.name for p in made]:
                raise _misdeclared(called, f"it consumes `{consumed}`, which is none of its parameters")
        kinds = tuple(_KINDS[g] for g in gives)
        signature = Signature(called, Group.PRIMITIVE, made, kinds, many, tuple(consumes), family)
        return Primitive(signature, _with_promises_kept(function, called))

    return make


def _with_promises_kept(function: Callable[P, Outcome], name: str) -> Callable[P, Outcome]:
    """A primitive's function that refuses where lanes which are to be joined, or updates which are to be atomic, would
    do something else afterwards.

    Whatever a primitive moves or changes may be one of these, so all of them are checked in one place.
    """

    @functools.wraps(function)
    def checked(*args: P.args, **named: P.kwargs) -> Outcome:
        outcome = function(*args, **named)
        before = args[0] if args else next(iter(named.values()), None)
        if isinstance(before, Program) and isinstance(outcome, Outcome) and outcome.program is not before:
            require_joined_lanes(before, outcome.program, name)
            require_atomic_updates(outcome.program, name)
        return outcome

    return checked


def _params(function: Callable[..., Outcome], given: Mapping[str, Kind]) -> tuple[Param, ...]:
    name = function.__name__
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as failure:
        raise _misdeclared(name, f"its annotations cannot be read: {failure}") from failure
    first, *rest = inspect.signature(function).parameters.values() or (None,)
    if first is None or hints.get(first.name, Program) is not Program:
        raise _misdeclared(name, "its first parameter is not the program")
    found: list[Param] = []
    for p in rest:
        if p.kind is p.VAR_KEYWORD:
            raise _misdeclared(name, f"`**{p.name}` is not a parameter that the language has")
        kind = given.get(p.name) or kind_of(hints.get(p.name), name, p.name)
        default = REQUIRED if p.default is p.empty else p.default
        variadic = p.kind is p.VAR_POSITIONAL or _said(hints.get(p.name), Spread) is not None
        found.append(Param(p.name, kind, default, variadic, p.kind is p.KEYWORD_ONLY))
    if not found or found[0].keyword:
        raise _misdeclared(name, "it takes nothing that it could be called on")
    return tuple(found)


def kind_of(annotation: object, primitive: str, parameter: str) -> Kind:
    """The kind of a parameter by its annotation.

    Raises:
        MsError: MS214, no kind has that annotation.
    """
    said = _said(annotation, Kind)
    if said is not None:
        return said
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        inner = frozenset(args) - {type(None)}
        annotation = next(iter(inner)) if len(inner) == 1 else inner
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        element = next((a for a in args if a is not Ellipsis), object)
        union = typing.get_origin(element) in (typing.Union, types.UnionType)
        key = frozenset(typing.get_args(element)) if union else element
        if key in _LISTS:
            return _LISTS[key]
    try:
        known = _KINDS.get(annotation)
    except TypeError:
        known = None
    if known is None:
        raise _misdeclared(
            primitive, f"`{parameter}` is annotated {annotation!r}, which is not a kind of argument of the language"
        )
    return known


def _said(annotation: object, kind: type[T]) -> T | None:
    """What an `Annotated` type, or a union with one, says of this kind."""
    found = (annotation, *typing.get_args(annotation))
    marked = (m for a in found if typing.get_origin(a) is Annotated for m in typing.get_args(a)[1:])
    return next((m for m in marked if isinstance(m, kind)), None)


def _takes_list(function: Callable[..., Outcome], parameter: str) -> bool:
    return inspect.signature(function).parameters[parameter].kind is not inspect.Parameter.VAR_POSITIONAL


def _misdeclared(name: str, why: str) -> MsError:
    return MsError(
        problem(
            "MS214",
            f"`{name}` cannot be made a primitive",
            why=why,
            help="annotate the program, then LoopRef, BlockRef, BufferRef, Expr, int, str, bool, IndexMap or a list",
        )
    )


def _first(wrong: Sequence[Diagnostic]) -> str:
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return wrong[0].message + (f": {wrong[0].why}" if wrong[0].why else "") + more


def _kind(handle: Handle) -> str:
    match handle:
        case LoopRef():
            return "loop"
        case BlockRef():
            return "block"
    return "buffer"


def _there(program: Program, handle: Handle) -> bool:
    match handle:
        case LoopRef(name=name):
            return path_to_loop(program, name) is not None
        case BlockRef(name=name):
            return any(b.name == name for b in blocks_of(program.body))
    return handle.name in all_buffers(program)


def _place(function: Callable[..., Outcome]) -> str:
    return f"`{function.__module__}.{function.__qualname__}`"
