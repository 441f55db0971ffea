"""Buffers of TVMScript: parameters, allocations, views."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType

from mslang.interop.sizes import ANY_SIZE, is_empty
from mslang.interop.tvmscript.aliases import over
from mslang.interop.tvmscript.call_arguments import bound, dotted, needed
from mslang.interop.tvmscript.calls import element_type
from mslang.interop.tvmscript.expressions import Expressions
from mslang.interop.tvmscript.frame import Frame
from mslang.interop.tvmscript.names import OUR_SCOPES
from mslang.interop.tvmscript.scope import Array, Handle, Names, Pointer, Reads, Scope, Unnamed, Value
from mslang.interop.tvmscript.source import parsed_expression, refuse, text_of
from mslang.interop.tvmscript.values import Number, as_index, constant, index
from mslang.ir.arith import simplify
from mslang.ir.dtype import parts, size_of
from mslang.ir.expr import ZERO, Binary, Const, DynamicRange, Expr, Symbol
from mslang.ir.program import Buffer, Region, View
from mslang.ir.visit import free_vars
from mslang.lower.layout import row_major

ALIGNED = 64
"""TVM's default alignment of buffers in bytes."""

_OFFSET = ("shape", "dtype", "data", "strides", "elem_offset")
_FIELDS = (*_OFFSET, "scope", "align", "offset_factor")
_FIELDS_WITH_BYTES = (*_OFFSET, "byte_offset", "scope", "align", "offset_factor")
_WITHOUT_BYTES = frozenset({"match_buffer", "sblock_alloc_buffer"})
"""Calls that take no offset in bytes."""
ALLOCATIONS: Mapping[str, str | None] = MappingProxyType(
    {
        "alloc_buffer": None,
        "sblock_alloc_buffer": None,
        "decl_buffer": None,
        "Buffer": None,
        "alloc_local": "local",
        "alloc_shared": "shared",
    }
)
"""Calls that make buffers, and the scope that the name of the call gives."""
_HARMLESS = frozenset({"buffer_type", "axis_separators", "allocated_addr", "logical_scope", "annotations"})
_LAYOUT = "`layout=` places elements in another order, which is not read here"


class Declared:
    """The sizes and buffers that a function has declared."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.symbols: dict[str, Symbol] = {}
        self.buffers: dict[str, Buffer] = {}
        self.implicit: set[str] = set()
        """The names of sizes declared by a quoted shape, which may be declared again."""
        self.views: dict[str, Region] = {}
        """The source of each view."""
        self.matched: dict[str, Buffer] = {}
        """The buffer of each parameter that is a handle."""
        self.arranged: set[str] = set()
        """The names of allocations with a layout, whose elements are not in row-major order."""

    def symbol(self, name: str, dtype: str, at: ast.AST, frame: Frame) -> Symbol:
        """A size known only at the call."""
        if dtype not in ("i32", "i64", "i16", "i8", "u8", "u16", "u32", "u64"):
            raise refuse("MS731", at, f"`{name}` is a `{dtype}` that nothing gives a value")
        own = self.names.declared(name)
        match frame.sizes.get(name):
            case (int() as lo, int() as hi, int() as multiple):
                domain = DynamicRange(lo, hi, multiple)
            case _:
                domain = ANY_SIZE
        self.symbols[own] = Symbol(own, domain)
        return self.symbols[own]

    def place(self, buffer: Buffer) -> tuple[Expr, tuple[Expr, ...]]:
        """The offset of a buffer or view in its memory, in elements, and its strides."""
        source = self.views.get(buffer.name)
        if source is None:
            return buffer.offset or ZERO, buffer.strides or row_major(buffer.shape)
        offset, strides = self.place(self.buffers[source.buffer])
        for r, step in zip(source.ranges, strides, strict=True):
            offset = Binary("+", offset, Binary("*", r.start, step))
        return simplify(offset), strides[len(strides) - len(buffer.shape) :]

    def add(self, buffer: Buffer) -> Buffer:
        """Register a buffer."""
        self.buffers[buffer.name] = buffer
        return buffer


def annotated(
    read: Expressions, declared: Declared, name: str, annotation: ast.expr, scope: Scope, frame: Frame
) -> Buffer:
    """A parameter `A: T.Buffer((16, 16), "float32")`."""
    match annotation:
        case ast.Call():
            found = _fields(annotation, read.aliases)
        case ast.Subscript(slice=ast.Tuple(elts=[shape, dtype])):
            found = {"shape": shape, "dtype": dtype}
        case ast.Subscript(slice=shape):
            found = {"shape": shape}
        case _:
            raise refuse("MS733", annotation, f"`{text_of(annotation)}` says no shape")
    _check_rows(annotation, name, found)
    return declared.add(_buffer(read, declared, name, annotation, found, scope, frame))


def allocation(
    read: Expressions, declared: Declared, target: ast.Name, call: ast.Call, scope: Scope, frame: Frame
) -> Buffer:
    """`A = T.sblock_alloc_buffer((16, 16), "float32", scope="local")`."""
    found = _fields(call, read.aliases)
    if dotted(call.func, read.aliases) == "Buffer":
        raise refuse(
            "MS731", call, f"`{target.id}` is a buffer of which nothing gives the memory", help="write `data=`"
        )
    scope_of = ALLOCATIONS[dotted(call.func, read.aliases) or ""]
    if scope_of is not None:
        found["scope"] = ast.copy_location(ast.Constant(scope_of), call)
    made = declared.add(_buffer(read, declared, target.id, call, found, scope, frame))
    if _has_layout(found):
        declared.arranged.add(made.name)
    return made


def pointer_of(read: Expressions, call: ast.Call, name: str, scope: Scope) -> ast.expr | None:
    """The pointer over which a declaration makes a buffer: the parameter of `T.match_buffer(a, …)`, the data of
    `T.decl_buffer(…, data=a)`; None if it makes no buffer of a pointer."""
    if name == "match_buffer":
        of = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "param"), None)
        return of if isinstance(of, ast.Name) and isinstance(scope.names.get(of.id), Handle) else None
    data = _fields(call, read.aliases).get("data")
    return None if _is_none(data) else data


def pointed(
    read: Expressions, declared: Declared, target: ast.Name, call: ast.Call, of: ast.expr, scope: Scope, frame: Frame
) -> Array:
    """The buffer that a declaration makes of a pointer: that of a parameter, or one over the memory of another."""
    found = _fields(call, read.aliases)
    _check_rows(call, target.id, found)
    made = _buffer(read, declared, target.id, call, found, scope, frame)
    pointer = read.value(of, scope)
    if isinstance(pointer, Handle):
        if pointer.name not in declared.matched:
            declared.matched[pointer.name] = declared.add(made)
            return Array(made)
        pointer = Pointer(Array(declared.matched[pointer.name]), ZERO)
    if not isinstance(pointer, Pointer):
        raise refuse("MS731", call, f"`{target.id}` is made of `{text_of(of)}`, which is not a pointer to a buffer")
    held = pointer.array.memory or pointer.array.buffer
    if held.name in declared.arranged:
        raise refuse("MS731", call, f"`{target.id}` shares the memory of `{held.name}`, which has a layout", _LAYOUT)
    alias = over(made, pointer.array, pointer.offset)
    if isinstance(alias, str):
        raise refuse("MS731", call, f"`{target.id}` cannot be read as elements of another buffer", alias)
    return alias


def view(read: Expressions, declared: Declared, target: ast.Name, call: ast.Call, scope: Scope, frame: Frame) -> View:
    """`A = T.match_buffer(B[i:i + 16, 0:16], (16, 16))`; its strides and offset are those of its source."""
    found = _fields(call, read.aliases)
    _check_rows(call, target.id, found)
    of = needed(call, found, "param")
    source = _source(read.region(of, scope), read.value(of, scope))
    viewed = declared.buffers[source.buffer]
    keep: dict[str, ast.expr] = {k: found[k] for k in ("shape", "dtype", "align") if k in found}
    keep |= {k: found[k] for k in ("strides", "elem_offset") if k in found and _is_fixed(read, found[k], scope)}
    made = _buffer(read, declared, target.id, call, keep, scope, frame, default=viewed, region=source)
    declared.views[made.name] = source
    return View(declared.add(made), source)


def bind_place(declared: Declared, call: ast.Call, view: Buffer, scope: Scope) -> None:
    """Bind the names of strides and of an offset in a view's declaration to the view's values."""
    offset, strides = declared.place(view)
    given = {k.arg: k.value for k in call.keywords}
    named = given.get("strides")
    pairs = list(zip(named.elts, strides, strict=False)) if isinstance(named, ast.List | ast.Tuple) else []
    for e, value in (*pairs, (given.get("elem_offset"), offset)):
        if isinstance(e, ast.Name) and isinstance(scope.names.get(e.id), Number):
            scope.bind(e.id, index(value))


def _is_fixed(read: Expressions, e: ast.expr, scope: Scope) -> bool:
    """Whether strides or an offset are numbers; names there match any value."""
    value = read.value(e, scope)
    values = value if isinstance(value, tuple) else (value,)
    return all(isinstance(v, Number) and constant(v) is not None for v in values)


def _source(region: Region, value: Value) -> Region:
    return value.region if isinstance(value, Reads) else region


def _fields(call: ast.Call, aliases: frozenset[str]) -> dict[str, ast.expr]:
    """The arguments of a declaration; those without influence on the results are ignored."""
    names = _parameters(call, dotted(call.func, aliases))
    for k in call.keywords:
        if k.arg is not None and k.arg not in (*names, *_HARMLESS, "layout"):
            raise refuse("MS733", k, f"`{text_of(call.func)}` has no use for `{k.arg}`")
    return bound(call, *names, "**") | {k.arg: k.value for k in call.keywords if k.arg == "layout"}


def _parameters(call: ast.Call, name: str | None) -> tuple[str, ...]:
    """The names of a declaration's arguments. The sixth is an offset in bytes, and was the scope, a text, in older
    versions."""
    if name == "match_buffer":
        return ("param", *_FIELDS)
    match call.args:
        case [_, _, _, _, _, ast.Constant(value=str()), *_]:
            return _FIELDS
    return _FIELDS if name in _WITHOUT_BYTES else _FIELDS_WITH_BYTES


def _has_layout(found: Mapping[str, ast.expr]) -> bool:
    """Whether a declaration has a layout other than row-major order."""
    return "layout" in found and ast.unparse(found["layout"]) not in ("None", "'default'")


def _check_rows(at: ast.expr, name: str, found: Mapping[str, ast.expr]) -> None:
    """Check that a buffer whose memory others access holds its elements in row-major order."""
    if _has_layout(found):
        raise refuse("MS731", at, f"`{name}` has a layout", _LAYOUT)


def _is_none(e: ast.expr | None) -> bool:
    return e is None or (isinstance(e, ast.Constant) and e.value is None)


def _buffer(
    read: Expressions,
    declared: Declared,
    name: str,
    at: ast.expr,
    found: dict[str, ast.expr],
    scope: Scope,
    frame: Frame,
    default: Buffer | None = None,
    region: Region | None = None,
) -> Buffer:
    given = {k: v for k, v in found.items() if not _is_none(v)}
    if "shape" in given:
        shape = _sizes(read, declared, given["shape"], scope, frame)
    elif region is not None:
        shape = tuple(r.extent for r in region.ranges)
    else:
        raise refuse("MS733", at, f"`{name}` has no shape")
    for n in shape:
        if free_vars(n):
            raise refuse("MS731", at, f"the shape of `{name}` depends on the loops around it")
    if is_empty(shape):
        raise refuse("MS731", at, f"`{name}` has no elements", "a buffer has at least one element here")
    fallback = "f32" if default is None else default.dtype
    dtype = element_type(read, given["dtype"], scope) if "dtype" in given else fallback
    strides = _sizes(read, declared, given["strides"], scope, frame) if "strides" in given else ()
    if strides and len(strides) != len(shape):
        raise refuse("MS733", at, f"`{name}` has {len(strides)} strides for {len(shape)} dimensions")
    offset = _offset(read, given, dtype, at, scope)
    return Buffer(
        declared.names.declared(name),
        dtype,
        shape,
        _scope(read, given.get("scope"), scope, "global" if default is None else default.scope),
        strides or None,
        offset,
        None if "align" not in given else _alignment(constant(read.number(given["align"], scope))),
    )


def _scalar_bytes(dtype: str) -> int:
    found = parts(dtype)
    assert found is not None
    return size_of(found.scalar)


def _alignment(said: object) -> int | None:
    """None for the default, which arrays of NumPy do not have, and for what is no alignment."""
    if not isinstance(said, int) or said in (1, ALIGNED) or said < 1 or said & (said - 1):
        return None
    return said


def _scope(read: Expressions, e: ast.expr | None, scope: Scope, default: str) -> str:
    if e is None:
        return default
    name = read.value(e, scope)
    if not isinstance(name, str) or (name and name not in OUR_SCOPES):
        raise refuse("MS734", e, f"there is no scope {text_of(e)} here", f"there are {', '.join(OUR_SCOPES)}")
    return OUR_SCOPES[name] if name else "global"


def _offset(read: Expressions, given: Mapping[str, ast.expr], dtype: str, at: ast.expr, scope: Scope) -> Expr | None:
    """The offset of a buffer, in elements. A size means any offset, unless the buffer lies in the memory of another."""
    elements, in_bytes = given.get("elem_offset"), given.get("byte_offset")
    if elements is not None and in_bytes is not None:
        raise refuse("MS733", at, f"`{text_of(at)}` has an offset in elements and one in bytes")
    found: Expr = ZERO
    if elements is not None:
        found = read.index(elements, scope)
    elif in_bytes is not None:
        found = simplify(Binary("//", read.index(in_bytes, scope), Const(_scalar_bytes(dtype))))
    return None if found == ZERO or (isinstance(found, Symbol) and "data" not in given) else found


def _sizes(read: Expressions, declared: Declared, e: ast.expr, scope: Scope, frame: Frame) -> tuple[Expr, ...]:
    """A shape or strides. A string names a size (`"n"`, `"n + 1"`), and declares it if necessary."""
    elements = e.elts if isinstance(e, ast.Tuple | ast.List) else None
    if elements is None or any(isinstance(x, ast.Starred) for x in elements):
        value = read.value(e, scope)
        if isinstance(value, tuple):
            return tuple(as_index(_number(v, e), e) for v in value)
        elements = elements or [e]
    return tuple(_size(read, declared, x, scope, frame) for x in elements)


def _number(value: Value, at: ast.expr) -> Number:
    if not isinstance(value, Number):
        raise refuse("MS733", at, f"`{text_of(at)}` is not a size")
    return value


def _size(read: Expressions, declared: Declared, e: ast.expr, scope: Scope, frame: Frame) -> Expr:
    if isinstance(e, ast.Constant) and isinstance(e.value, str):
        try:
            text = parsed_expression(e.value)
        except SyntaxError:
            raise refuse("MS733", e, f"{text_of(e)} is not a size") from None
        for x in ast.walk(text):
            ast.copy_location(x, e)
            if isinstance(x, ast.Name) and (x.id not in scope.names or isinstance(scope.names[x.id], Unnamed)):
                scope.bind(x.id, index(declared.symbol(x.id, "i32", e, frame)))
                declared.implicit.add(x.id)
        e = text
    value = read.value(e, scope)
    if isinstance(value, Unnamed) and isinstance(e, ast.Name):
        scope.bind(e.id, index(declared.symbol(e.id, value.dtype, e, frame), value.dtype))
        value = scope.names[e.id]
    return as_index(_number(value, e), e)
