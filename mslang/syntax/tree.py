"""The syntax tree: one frozen node class for each construct of `grammar/ms.lark`, each with its span.

Spans inside an item are relative to the item's first character (`PlacedItem.start` is its offset in the file), so
that an unchanged item is the same value wherever in the file it moves to. The tree does not resolve names.
"""

from __future__ import annotations

import msgspec

from mslang.diagnostics import Diagnostic, Span


class Node(msgspec.Struct, frozen=True):
    """Any node; `span` covers its text."""

    span: Span


# ------------------------------------------------------------------ names and expressions
class Name(Node, frozen=True):
    """An identifier; backticks are taken off `text`."""

    text: str


class Number(Node, frozen=True):
    """A numeric literal; `value` is an int or a float."""

    value: int | float


class String(Node, frozen=True):
    """A string literal, escapes resolved; `raw` is the text as written, quotes included."""

    value: str
    raw: str


class Size(Node, frozen=True):
    """A byte count such as `164KiB`; `bytes` is its value."""

    bytes: int
    raw: str


class Bool(Node, frozen=True):
    """`true` or `false`."""

    value: bool


class Hole(Node, frozen=True):
    """`_`."""


class Bad(Node, frozen=True):
    """Text that could not be parsed; may occur in place of an expression, statement, field, case or item."""

    text: str


class Ref(Node, frozen=True):
    """A plain name used as an expression."""

    name: Name


class Member(Node, frozen=True):
    """`base.name`."""

    base: Expr
    name: Name


class Arg(Node, frozen=True):
    """A call's argument: `value`, `name = value` (a quoted name keeps its text) or `*value` (`splat`)."""

    value: Expr
    name: Name | None = None
    splat: bool = False


class Call(Node, frozen=True):
    """`callee(args)`."""

    callee: Expr
    args: tuple[Arg, ...]


class Index(Node, frozen=True):
    """`base[items]`; `items` may be empty (`s[]`)."""

    base: Expr
    items: tuple[Expr, ...]


class Binary(Node, frozen=True):
    """`left op right`; op is one of `+ - * / // % == != < <= > >= and or ..`."""

    op: str
    left: Expr
    right: Expr


class Unary(Node, frozen=True):
    """`- x`, `+ x` or `not x`."""

    op: str
    operand: Expr


class List(Node, frozen=True):
    """`[a, b, …]`."""

    items: tuple[Expr, ...]


class Group(Node, frozen=True):
    """`(e)`, or a tuple `(a, b)`."""

    items: tuple[Expr, ...]


class Binder(Node, frozen=True):
    """A binder of a `let`: `name`, `_` (name None) or `*name` (`star`)."""

    name: Name | None
    star: bool = False


class Comprehension(Node, frozen=True):
    """`[element for binders in source if condition]`."""

    element: Expr
    binders: tuple[Binder, ...]
    source: Expr
    condition: Expr | None


class IndexMap(Node, frozen=True):
    """`fn (i, j) -> [e, …]`."""

    params: tuple[Name, ...]
    results: tuple[Expr, ...]


Expr = (
    Number
    | String
    | Size
    | Bool
    | Hole
    | Bad
    | Ref
    | Member
    | Call
    | Index
    | Binary
    | Unary
    | List
    | Group
    | Comprehension
    | IndexMap
)


# ------------------------------------------------------------------ parts of statements and items
class Place(Node, frozen=True):
    """The part after `@`: a dotted path (a scope, a loop kind, an axis kind) and its arguments."""

    path: tuple[Name, ...]
    args: tuple[Arg, ...] = ()

    @property
    def text(self) -> str:
        """The dotted path as written."""
        return ".".join(n.text for n in self.path)

    @property
    def path_span(self) -> Span:
        """The place of the path, without the arguments."""
        return self.path[0].span.to(self.path[-1].span)


class Type(Node, frozen=True):
    """`f32[N, M] @ local(…)`. `shape` is None without brackets, () for `f32[]`."""

    name: Name
    shape: tuple[Expr, ...] | None = None
    place: Place | None = None


class SizeParam(Node, frozen=True):
    """A size parameter `M: dyn(1..8) = 4` of a program."""

    name: Name
    kind: Expr | None = None
    default: Expr | None = None


class Within(Node, frozen=True):
    """`in a..b sorted`: the values that an array may hold, and words for the relation between them."""

    range: Expr
    words: tuple[Name, ...]


class Param(Node, frozen=True):
    """A parameter; `direction` is "in", "out" or "inout". `constant` is the word `const` before an input."""

    name: Name
    type: Type
    direction: str = "in"
    default: Expr | None = None
    within: Within | None = None
    constant: bool = False


class AxisLoop(Node, frozen=True):
    """`i in a..b @ kind` of a `for`."""

    name: Name
    domain: Expr
    place: Place | None = None


class Axis(Node, frozen=True):
    """`i: M @ kind = binding` of a block; `reduce` is true after `|`."""

    name: Name
    extent: Expr
    reduce: bool = False
    place: Place | None = None
    binding: Expr | None = None


class Case(Node, frozen=True):
    """`case name { … }` of a fork."""

    name: Name
    body: Body


class Pin(Node, frozen=True):
    """`address = value` of a `with { … }`; `place` is where the address is written."""

    address: str
    value: Expr
    place: Span


class Attribute(Node, frozen=True):
    """`@name(args)` before an item."""

    name: Name
    args: tuple[Arg, ...] = ()


class Field(Node, frozen=True):
    """`name = value` of a target."""

    name: Name
    value: Expr


class Impl(Node, frozen=True):
    """An implementation of an intrinsic: a program body, or a back end's text (`backend` names it)."""

    body: Body | None = None
    backend: Name | None = None
    text: String | None = None


class Body(Node, frozen=True):
    """`{ statements }`; a closing `return` is the last statement. `closed` is False if the brace is missing."""

    statements: tuple[Stmt, ...]
    closed: bool = True


# ------------------------------------------------------------------ statements
class Let(Node, frozen=True):
    """`let a, *b, _ = value`."""

    binders: tuple[Binder, ...]
    value: Expr


class Sample(Node, frozen=True):
    """`let name as "address" ~ distribution = value`."""

    name: Name
    distribution: Expr
    address: String | None = None
    value: Expr | None = None


class Alloc(Node, frozen=True):
    """`alloc name: type = value`."""

    name: Name
    type: Type
    value: Expr | None = None


class View(Node, frozen=True):
    """`view name: type = A[…]`."""

    name: Name
    type: Type
    source: Expr


class AttrSet(Node, frozen=True):
    """`attr key = value`."""

    key: str
    value: Expr


class While(Node, frozen=True):
    """`while condition { … }`."""

    condition: Expr
    body: Body


class For(Node, frozen=True):
    """`for i in a..b, j in n where e { … }`."""

    loops: tuple[AxisLoop, ...]
    body: Body
    where: Expr | None = None


class Block(Node, frozen=True):
    """`block name[axes | axes] { … }`. `axes` is None without brackets."""

    name: Name
    axes: tuple[Axis, ...] | None
    body: Body


class Init(Node, frozen=True):
    """`init { … }`."""

    body: Body


class Reads(Node, frozen=True):
    """`reads A[…], B[…]`."""

    regions: tuple[Expr, ...]


class Writes(Node, frozen=True):
    """`writes A[…]`."""

    regions: tuple[Expr, ...]


class Where(Node, frozen=True):
    """`where e`."""

    condition: Expr


class If(Node, frozen=True):
    """`if e { … } else { … }`; a chained `else if` is a body holding one `If`."""

    condition: Expr
    body: Body
    otherwise: Body | None = None


class Fork(Node, frozen=True):
    """`fork name = pinned { case … }`."""

    name: Name | None
    cases: tuple[Case | Bad, ...]
    pinned: Name | None = None


class Require(Node, frozen=True):
    """`require e, "why"`."""

    condition: Expr
    why: String | None = None


class Check(Node, frozen=True):
    """`check e, "why"` of a test."""

    condition: Expr
    why: String | None = None


class Snapshot(Node, frozen=True):
    """`snapshot e \"\"\"…\"\"\"` of a test."""

    value: Expr
    text: String


class Return(Node, frozen=True):
    """`return a, b`."""

    values: tuple[Expr, ...]


class Assign(Node, frozen=True):
    """`target = value`; op is `=`, `+=` or `*=`."""

    target: Expr
    op: str
    value: Expr


class CallStmt(Node, frozen=True):
    """A call as a statement; `pins` is None without `with`."""

    call: Expr
    pins: tuple[Pin, ...] | None = None


Stmt = (
    Let
    | Sample
    | Alloc
    | View
    | AttrSet
    | While
    | For
    | Block
    | Init
    | Reads
    | Writes
    | Where
    | If
    | Fork
    | Require
    | Check
    | Snapshot
    | Return
    | Assign
    | CallStmt
    | Bad
)


# ------------------------------------------------------------------ strategies of a space
class Union(Node, frozen=True):
    """`a | b`."""

    parts: tuple[Strategy, ...]


class Sequence(Node, frozen=True):
    """`a >> b`."""

    parts: tuple[Strategy, ...]


class Pinned(Node, frozen=True):
    """`s with { … }`."""

    strategy: Expr
    pins: tuple[Pin, ...]


Strategy = Union | Sequence | Pinned | Expr


# ------------------------------------------------------------------ items
class Item(Node, frozen=True):
    """Any item. `doc` is the text of the `##` lines right above it, `attributes` are those before it."""

    attributes: tuple[Attribute, ...]
    doc: str


class Use(Item, frozen=True):
    """`use a.b.{c, d}`, `use "./other.ms".{x}`, `use a.b as c`. `names` is None without braces."""

    path: tuple[Name, ...]
    file: String | None
    names: tuple[Name, ...] | None
    alias: Name | None


class Const(Item, frozen=True):
    """`const name = e`."""

    name: Name
    value: Expr


class Target(Item, frozen=True):
    """`target name = kind { fields }`."""

    name: Name
    kind: tuple[Name, ...]
    fields: tuple[Field | Bad, ...]


class Program(Item, frozen=True):
    """`program name[sizes](params) { … }`."""

    name: Name
    sizes: tuple[SizeParam, ...]
    params: tuple[Param, ...]
    body: Body


class Schedule(Item, frozen=True):
    """`schedule name(params) for program on target { … }`, or `= source with { pins }`."""

    name: Name
    params: tuple[Param, ...]
    program: tuple[Name, ...] | None
    target: Expr | None
    body: Body | None
    source: Expr | None = None
    pins: tuple[Pin, ...] | None = None


class Rule(Item, frozen=True):
    """`rule name(params) when e { … }`."""

    name: Name
    params: tuple[Param, ...]
    when: Expr | None
    body: Body


class Fn(Item, frozen=True):
    """`fn name(params) { … }`."""

    name: Name
    params: tuple[Param, ...]
    body: Body


class Space(Item, frozen=True):
    """`space name for program on target = strategy`."""

    name: Name
    program: tuple[Name, ...] | None
    target: Expr | None
    strategy: Strategy


class Intrin(Item, frozen=True):
    """`intrin name(params) on target { desc { … } impl … }`."""

    name: Name
    params: tuple[Param, ...]
    target: Expr | None
    desc: Body
    impls: tuple[Impl, ...]


class Test(Item, frozen=True):
    """`test "title" { … }`."""

    title: String
    body: Body


class BadItem(Item, frozen=True):
    """An item whose header could not be parsed; `keyword` and `name` as far as they could be read."""

    keyword: str
    name: Name | None
    text: str


AnyItem = Use | Const | Target | Program | Schedule | Rule | Fn | Space | Intrin | Test | BadItem


class ParsedItem(msgspec.Struct, frozen=True):
    """An item with the diagnostics of its own text (item-relative); the unit of caching, its key the text."""

    text: str
    item: AnyItem
    diagnostics: tuple[Diagnostic, ...] = ()


class PlacedItem(msgspec.Struct, frozen=True):
    """A parsed item and its start in the file. Its text extends to the next item."""

    start: int
    parsed: ParsedItem

    @property
    def item(self) -> AnyItem:
        """The item itself."""
        return self.parsed.item


class File(msgspec.Struct, frozen=True):
    """A parsed file: `leading` (trivia before the first item) and the items cover `text` without gap or overlap."""

    path: str
    text: str
    leading: str
    items: tuple[PlacedItem, ...]

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The syntax diagnostics of all items, with offsets in the file, in order."""
        return tuple(d.placed(self.path, p.start) for p in self.items for d in p.parsed.diagnostics)
