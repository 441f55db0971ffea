"""The state of a block or function while its statements are read."""

from __future__ import annotations

import ast

from mslang.interop.annotations import CONSTANTS
from mslang.interop.directions import DIRECTIONS
from mslang.interop.tvmscript.call_arguments import dotted
from mslang.interop.tvmscript.expressions import Expressions
from mslang.interop.tvmscript.names import FUNCTION_ATTRIBUTE, SIZES
from mslang.interop.tvmscript.scope import Array, Scope, Value
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.interop.tvmscript.values import Number, data
from mslang.ir.expr import Const, Expr
from mslang.ir.program import Annotations, AttrValue, Axis, Buffer, Region, Stmt, View
from mslang.ir.symbols import annotation_exprs
from mslang.ir.visit import free_vars, loads_of

_IMPLIED = frozenset({"global_symbol", "tir.noalias", "tirx.noalias"})
"""Attributes that are implied here."""


class Frame:
    """The parts of a block, or of a function, whose statements are being read."""

    def __init__(self, function: bool = False) -> None:
        self.function = function
        self.axes: list[Axis] = []
        self.reads: tuple[Region, ...] | None = None
        self.writes: tuple[Region, ...] | None = None
        self.predicate: Expr | None = None
        self.init: tuple[Stmt, ...] | None = None
        self.allocs: list[Buffer] = []
        self.views: list[View] = []
        self.notes: Annotations = ()
        self.instruction: tuple[Stmt, ...] | None = None
        """The meaning of the instruction, if the block is one."""
        self.sizes: dict[str, tuple[AttrValue, ...]] = {}
        self.directions: tuple[AttrValue, ...] | None = None
        self.constants: AttrValue = ()

    def function_attributes(self, notes: Annotations) -> None:
        """Read `T.func_attr`; attributes that only `print` writes are not kept as annotations."""
        for key, value in notes:
            match key, value:
                case (str(), tuple()) if key == SIZES:
                    self.sizes = {str(v[0]): v[1:] for v in value if isinstance(v, tuple) and len(v) == 4}
                case (str(), tuple()) if key == DIRECTIONS:
                    self.directions = value
                case _ if key == CONSTANTS:
                    self.constants = value
                case _ if key not in _IMPLIED:
                    self.notes = (*self.notes, (FUNCTION_ATTRIBUTE + key, value))


def notes_of(read: Expressions, e: ast.expr, scope: Scope) -> Annotations:
    """A dictionary of annotations. Dictionaries inside become lists of pairs."""
    if not isinstance(e, ast.Dict):
        raise refuse("MS733", e, f"`{text_of(e)}` is not a dictionary of annotations")
    found: dict[str, AttrValue] = {}
    for k, v in zip(e.keys, e.values, strict=True):
        if not isinstance(k, ast.Constant) or not isinstance(k.value, str):
            raise refuse("MS733", k or e, "the key of an annotation is a text")
        found[k.value] = annotation(read, v, scope)
    made = tuple(found.items())
    check_closed(made, e)
    return made


def check_closed(notes: Annotations, at: ast.AST) -> None:
    """Check that annotations name sizes only."""
    if any(free_vars(x) or any(loads_of(x)) for x in annotation_exprs(notes)):
        raise refuse("MS731", at, "an annotation here names sizes only")


def annotation(read: Expressions, e: ast.expr, scope: Scope) -> AttrValue:
    """The value of an annotation. Python's numbers stay plain; `T.int64(4)` is a constant with a type."""
    match e:
        case ast.Constant(value=bool() | int() | float() | str() as v):
            return v
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as v)):
            return -v
        case ast.List(elts=xs) | ast.Tuple(elts=xs):
            return tuple(annotation(read, x, scope) for x in xs)
        case ast.Dict():
            return notes_of(read, e, scope)
        case ast.Call(args=[inner, *_]) if dotted(e.func, read.aliases) == "target":
            return annotation(read, inner, scope)
    return _held(read.value(e, scope), e)


def _held(value: Value, e: ast.expr) -> AttrValue:
    match value:
        case str():
            return value
        case Array():
            return (value.memory or value.buffer).name
        case tuple():
            return tuple(_held(x, e) for x in value)
        case dict():
            return tuple((k, _held(v, e)) for k, v in value.items())
        case Number(expr=Const(value=bool() as v)):
            return v
        case Number():
            return value.expr if value.index else data(value)
    raise refuse("MS731", e, f"an annotation cannot hold `{text_of(e)}`")
