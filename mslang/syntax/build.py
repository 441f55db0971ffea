"""From productions to nodes: one function for each rule or alias of the grammar, its arguments in grammar order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from mslang.diagnostics import Span
from mslang.syntax import tree
from mslang.syntax.lexer import Token
from mslang.syntax.literals import number_value, size_value, string_value
from mslang.syntax.tables import load_tables

Builder = Callable[..., object]


# ------------------------------------------------------------------ tokens that are nodes
def _name(span: Span, text: str) -> tree.Name:
    return tree.Name(span, text.strip("`"))


TERMINALS: Mapping[str, Callable[[Span, str], tree.Node]] = {
    "NAME": _name,
    "NUMBER": lambda span, text: tree.Number(span, number_value(text)),
    "STRING": lambda span, text: tree.String(span, string_value(text), text),
    "SIZE": lambda span, text: tree.Size(span, size_value(text), text),
    "TRUE": lambda span, text: tree.Bool(span, True),
    "FALSE": lambda span, text: tree.Bool(span, False),
    "HOLE": lambda span, text: tree.Hole(span),
    "ERROR": tree.Bad,
}


def _as_name(value: tree.Name | Token) -> tree.Name:
    """A name, possibly spelled as a keyword."""
    if isinstance(value, Token):
        return tree.Name(Span(value.start, value.end), value.text)
    return value


def _tuple(span: Span, *values: Any) -> tuple[Any, ...]:
    return values


# ------------------------------------------------------------------ expressions
def _chain(span: Span, first: tree.Expr, *rest: Any) -> tree.Expr:
    """`a op b op c`, left-associative; operator tokens are between the operands."""
    result = first
    for operator, operand in zip(rest[::2], rest[1::2], strict=True):
        result = tree.Binary(result.span.to(operand.span), operator.text, result, operand)
    return result


def _logic(op: str) -> Builder:
    def build(span: Span, first: tree.Expr, *rest: tree.Expr) -> tree.Expr:
        result = first
        for operand in rest:
            result = tree.Binary(result.span.to(operand.span), op, result, operand)
        return result

    return build


def _member(span: Span, base: tree.Expr, name: tree.Name) -> tree.Node:
    return tree.Member(span, base, name)


def _binder(span: Span, *parts: Any) -> tree.Binder:
    name = parts[-1]
    return tree.Binder(span, None if isinstance(name, tree.Hole) else name, star=len(parts) == 2)


def _quoted_arg(span: Span, name: tree.String, value: tree.Expr) -> tree.Arg:
    return tree.Arg(span, value, tree.Name(name.span, name.value))


# ------------------------------------------------------------------ parts
def _path(span: Span, *parts: Any) -> tuple[tree.Name, ...]:
    return parts if len(parts) == 1 else (*parts[0], parts[1])


def _type_name(name: tree.Name | Token) -> tree.Name:
    return _as_name(name)


def _type(span: Span, name: Any, shape: tuple[tree.Expr, ...] | None, place: tree.Place | None) -> tree.Type:
    return tree.Type(span, _type_name(name), shape, place)


def _param(
    span: Span,
    word: Token | None,
    name: tree.Name,
    type: tree.Type,
    within: tree.Within | None,
    default: tree.Expr | None,
) -> tree.Param:
    direction = word.text if word is not None and word.kind != "CONST" else "in"
    return tree.Param(span, name, type, direction, default, within, word is not None and word.kind == "CONST")


def _within(span: Span, range: tree.Expr, *words: tree.Name) -> tree.Within:
    return tree.Within(span, range, words)


def _place(span: Span, path: tuple[tree.Name, ...], args: tuple[tree.Arg, ...] | None) -> tree.Place:
    return tree.Place(span, path, args or ())


def _attribute(span: Span, name: tree.Name, args: tuple[tree.Arg, ...] | None) -> tree.Attribute:
    return tree.Attribute(span, name, args or ())


def _axis(
    span: Span, name: tree.Name, extent: tree.Expr, place: tree.Place | None, binding: tree.Expr | None
) -> tree.Axis:
    return tree.Axis(span, name, extent, False, place, binding)


def _reduction(span: Span, *axes: tree.Axis) -> tuple[tree.Axis, ...]:
    return tuple(msgspec.structs.replace(axis, reduce=True) for axis in axes)


def _axes(
    span: Span, spatial: tuple[tree.Axis, ...] | None, reduction: tuple[tree.Axis, ...] | None
) -> tuple[tree.Axis, ...]:
    return (spatial or ()) + (reduction or ())


def _pin(span: Span, name: tree.Name | tree.String, value: tree.Expr) -> tree.Pin:
    return tree.Pin(span, name.text if isinstance(name, tree.Name) else name.value, value, name.span)


def _body(span: Span, *parts: Any) -> tree.Body:
    *statements, last, brace = parts
    if last is not None:
        statements.append(last)
    return tree.Body(span, tuple(statements), closed=brace.end > brace.start)


# ------------------------------------------------------------------ statements
def _sample(
    span: Span, name: tree.Name, address: tree.String | None, distribution: tree.Expr, value: tree.Expr | None
) -> tree.Sample:
    return tree.Sample(span, name, distribution, address, value)


def _attr_set(span: Span, key: tree.Name | tree.String, value: tree.Expr) -> tree.AttrSet:
    return tree.AttrSet(span, key.text if isinstance(key, tree.Name) else key.value, value)


def _for(span: Span, loops: tuple[tree.AxisLoop, ...], where: tree.Expr | None, body: tree.Body) -> tree.For:
    return tree.For(span, loops, body, where)


def _if(span: Span, condition: tree.Expr, body: tree.Body, otherwise: tree.Body | tree.If | None) -> tree.If:
    if isinstance(otherwise, tree.If):
        otherwise = tree.Body(otherwise.span, (otherwise,))
    return tree.If(span, condition, body, otherwise)


def _fork(span: Span, name: tree.Name | None, pinned: tree.Name | None, *cases: tree.Case | tree.Bad) -> tree.Fork:
    return tree.Fork(span, name, cases, pinned)


def _assign(span: Span, target: tree.Expr, operator: Token, value: tree.Expr) -> tree.Assign:
    return tree.Assign(span, target, operator.text, value)


# ------------------------------------------------------------------ items (attributes and doc are set by `item`)
def _item(span: Span, *parts: Any) -> tree.Item:
    *attributes, declaration = parts
    if not attributes:
        return declaration  # type: ignore[no-any-return]
    return msgspec.structs.replace(declaration, span=span, attributes=tuple(attributes))  # type: ignore[no-any-return]


def _use(
    span: Span,
    source: tuple[tree.Name, ...] | tree.String,
    names: tuple[tree.Name, ...] | None,
    alias: tree.Name | None,
) -> tree.Use:
    if isinstance(source, tree.String):
        return tree.Use(span, (), "", (), source, names, alias)
    return tree.Use(span, (), "", source, None, names, alias)


def _schedule(
    span: Span,
    name: tree.Name,
    params: tuple[tree.Param, ...] | None,
    program: tuple[tree.Name, ...] | None,
    target: tree.Expr | None,
    *rest: Any,
) -> tree.Schedule:
    if len(rest) == 1:
        return tree.Schedule(span, (), "", name, params or (), program, target, rest[0])
    source, pins = rest
    return tree.Schedule(span, (), "", name, params or (), program, target, None, source, pins)


def _program(
    span: Span,
    name: tree.Name,
    sizes: tuple[tree.SizeParam, ...] | None,
    params: tuple[tree.Param, ...],
    body: tree.Body,
) -> tree.Program:
    return tree.Program(span, (), "", name, sizes or (), params, body)


def _target(span: Span, name: tree.Name, kind: tuple[tree.Name, ...], *fields: tree.Field | tree.Bad) -> tree.Target:
    return tree.Target(span, (), "", name, kind, fields)


def _intrin(
    span: Span,
    name: tree.Name,
    params: tuple[tree.Param, ...],
    target: tree.Expr | None,
    desc: tree.Body,
    *impls: tree.Impl,
) -> tree.Intrin:
    return tree.Intrin(span, (), "", name, params, target, desc, impls)


def _declaration(node: Callable[..., tree.Item]) -> Builder:
    """A builder for an item whose fields are in grammar order."""
    return lambda span, *fields: node(span, (), "", *fields)


def _many(node: Callable[[Span, tuple[Any, ...]], object]) -> Builder:
    """A builder for a node that holds one tuple of parts."""
    return lambda span, *parts: node(span, parts)


BUILDERS: Mapping[str, Builder] = {
    # expressions
    "name": tree.Ref,
    "member": _member,
    "member_name": lambda span, word: _as_name(word),
    "call_expr": tree.Call,
    "index": lambda span, base, *items: tree.Index(span, base, items),
    "between": lambda span, low, high: tree.Binary(span, "..", low, high),
    "disjunction": _logic("or"),
    "conjunction": _logic("and"),
    "negation": lambda span, operand: tree.Unary(span, "not", operand),
    "binary": _chain,
    "signed": lambda span, sign, operand: tree.Unary(span, sign.text, operand),
    "list": _many(tree.List),
    "group": _many(tree.Group),
    "comprehension": tree.Comprehension,
    "index_map": lambda span, params, *results: tree.IndexMap(span, params or (), results),
    "bad": lambda span, bad: bad,
    "args": _tuple,
    "arg": tree.Arg,
    "named_arg": lambda span, name, value: tree.Arg(span, value, name),
    "quoted_arg": _quoted_arg,
    "splat": lambda span, star, value: tree.Arg(span, value, splat=True),
    "binders": _tuple,
    "binder": _binder,
    "names": _tuple,
    "path": _path,
    # parts
    "params": _tuple,
    "param": _param,
    "within": _within,
    "sizes": _tuple,
    "size": tree.SizeParam,
    "type": _type,
    "shape": _tuple,
    "place": _place,
    "attr": _attribute,
    "axes": _axes,
    "spatial": _tuple,
    "reduction": _reduction,
    "axis": _axis,
    "loops": _tuple,
    "axis_loop": tree.AxisLoop,
    "pins": _tuple,
    "pin": _pin,
    "uses": _tuple,
    "field": tree.Field,
    "case": tree.Case,
    "impl_body": lambda span, body: tree.Impl(span, body),
    "impl_raw": lambda span, backend, text: tree.Impl(span, None, backend, text),
    "body": _body,
    # statements
    "let": tree.Let,
    "sample": _sample,
    "alloc": tree.Alloc,
    "view": tree.View,
    "attr_set": _attr_set,
    "while": tree.While,
    "for": _for,
    "block": tree.Block,
    "init": tree.Init,
    "reads": _many(tree.Reads),
    "writes": _many(tree.Writes),
    "where": tree.Where,
    "if": _if,
    "fork": _fork,
    "require": tree.Require,
    "check": tree.Check,
    "snapshot": tree.Snapshot,
    "return": _many(tree.Return),
    "assign": _assign,
    "call": tree.CallStmt,
    # strategies
    "union": _many(tree.Union),
    "sequence": lambda span, *parts: tree.Sequence(span, parts[::2]),
    "pinned": tree.Pinned,
    # items
    "item": _item,
    "use": _use,
    "const": _declaration(tree.Const),
    "target": _target,
    "program": _program,
    "schedule": _schedule,
    "rule": _declaration(tree.Rule),
    "fn": _declaration(tree.Fn),
    "space": _declaration(tree.Space),
    "intrin": _intrin,
    "test": _declaration(tree.Test),
}


Reducer = Callable[[list[Any], int, int], Any]


@lru_cache(maxsize=1)
def reducers() -> tuple[Reducer, ...]:
    """For each production the function `(children, start, end) -> value`."""
    return tuple(_reducer(rule.action, rule.template) for rule in load_tables().rules)


def _reducer(action: str, template: tuple[int | None, ...]) -> Reducer:
    if action == "pass":
        kept = template[0] or 0
        return lambda children, start, end: children[kept]
    plain = all(k is None or k >= 0 for k in template)
    if not action:
        if plain:
            return lambda children, start, end: [None if k is None else children[k] for k in template]
        if template[0] == -1 and len(template) == 2:
            return _append(template[1])
        return lambda children, start, end: _arguments(template, children)
    build = BUILDERS[action]
    if plain:
        return lambda children, start, end: build(
            Span(start, end), *[None if k is None else children[k] for k in template]
        )
    return lambda children, start, end: build(Span(start, end), *_arguments(template, children))


def _append(last: int | None) -> Reducer:
    """A left-recursive list grows in place: nothing else refers to it."""

    def reduce(children: list[Any], start: int, end: int) -> list[Any]:
        values: list[Any] = children[0]
        if last is None:
            values.append(None)
        elif last >= 0:
            values.append(children[last])
        else:
            values.extend(children[-1 - last])
        return values

    return reduce


def _arguments(template: tuple[int | None, ...], children: list[Any]) -> list[Any]:
    arguments: list[Any] = []
    for k in template:
        if k is None:
            arguments.append(None)
        elif k >= 0:
            arguments.append(children[k])
        else:
            arguments.extend(children[-1 - k])
    return arguments
