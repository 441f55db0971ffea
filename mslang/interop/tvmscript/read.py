"""Reading TVMScript."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import Diagnostic, MsError, Span
from mslang.interop.annotations import with_constants
from mslang.interop.block_names import with_names
from mslang.interop.directions import directed
from mslang.interop.tvmscript.buffers import ALLOCATIONS, annotated
from mslang.interop.tvmscript.call_arguments import dotted
from mslang.interop.tvmscript.constants import aliases_of, bodies, collect, is_program, older_aliases_of, size_type
from mslang.interop.tvmscript.expressions import Expressions
from mslang.interop.tvmscript.frame import Frame, notes_of
from mslang.interop.tvmscript.instances import Instances
from mslang.interop.tvmscript.jumps import straightened, without_return
from mslang.interop.tvmscript.names import SIZES, UNUSED_POINTERS
from mslang.interop.tvmscript.patterns import TVM, implementation
from mslang.interop.tvmscript.scalars import is_data, results
from mslang.interop.tvmscript.scope import Array, Handle, Names, Scope, Unnamed, Value, plain
from mslang.interop.tvmscript.source import Refusal, Source, parsed, parsed_expression, refuse, text_of
from mslang.interop.tvmscript.statements import Statements
from mslang.interop.tvmscript.values import index
from mslang.ir.dtype import is_integer
from mslang.ir.expr import Symbol
from mslang.ir.intrin import Intrin
from mslang.ir.program import AttrValue, Buffer, Param, Program
from mslang.ir.symbols import symbols_of
from mslang.ir.verify import verify
from mslang.ir.visit import walk_expr

_BUFFERS = frozenset({"Buffer", "buffer"})
_DECLARING = frozenset({"match_buffer", *ALLOCATIONS})


class Function(msgspec.Struct, frozen=True):
    """A program that was read. `blocks` maps TVM's names of blocks to ours."""

    program: Program
    blocks: Mapping[str, str]


class Reading(msgspec.Struct, frozen=True):
    """The contents of a text: its readable functions, and diagnostics of the others."""

    functions: tuple[Function, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


def parse(text: str, path: str | None = None, intrinsics: Sequence[Intrin] = ()) -> tuple[Program, ...]:
    """The programs of a text: every `prim_func` in it, including those in classes.

    Args:
        text: a Python text. It is not run; names from outside of a function have the values of their literal
            assignments (`N = 128`).
        path: the name of the text in diagnostics.
        intrinsics: instructions whose calls may occur in blocks: those with a text for `tvm`, as `intrin` reads them.

    Raises:
        MsError: MS730, the text is not Python; MS736, it has no program; MS731 to MS735, a feature is not supported.
    """
    found = read(text, path, intrinsics)
    if found.diagnostics:
        raise MsError(*found.diagnostics)
    return tuple(f.program for f in found.functions)


def parse_one(text: str, path: str | None = None, intrinsics: Sequence[Intrin] = ()) -> Program:
    """The only program of a text; as `parse`, and MS736 if there are several."""
    found = parse(text, path, intrinsics)
    if len(found) != 1:
        names = ", ".join(p.name for p in found)
        raise MsError(Diagnostic("MS736", f"there are {len(found)} programs in the text", why=names, path=path))
    return found[0]


def read(text: str, path: str | None = None, intrinsics: Sequence[Intrin] = ()) -> Reading:
    """As `parse`, but returns the readable programs together with the diagnostics of the others."""
    source = Source(text, path)
    try:
        return _read(_python(source), source, intrinsics)
    except RecursionError:
        return Reading((), (Diagnostic("MS731", "this text is nested too deeply", why=_DEEP, path=path),))
    except MsError as error:
        return Reading((), error.diagnostics)


_DEEP = "hundreds of operators, branches or assignments stand inside each other"


def _python(source: Source) -> ast.Module:
    """The text as Python's tree; MS730 if it is not Python."""
    try:
        return parsed(source.text)
    except SyntaxError as e:
        raise MsError(_no_python(e, source)) from None
    except (ValueError, MemoryError) as e:
        raise MsError(Diagnostic("MS730", "this is not Python", why=str(e), path=source.path)) from None


def _read(tree: ast.Module, source: Source, intrinsics: Sequence[Intrin]) -> Reading:
    path = source.path
    aliases = aliases_of(tree)
    older = older_aliases_of(tree, source.text)
    expressions = Expressions(aliases, (*intrinsics, *_registered(tree, aliases, source)), older)
    functions: list[Function] = []
    diagnostics: list[Diagnostic] = []
    taken = Names()
    last: dict[int, list[Program]] = {}
    for node, names in programs_in(tree.body, {}, expressions, Instances(tree, expressions), ()):
        made, found = _function(node, names, expressions, source)
        diagnostics += (d for d in found if d not in diagnostics)
        if made is not None and made.program not in last.setdefault(node.lineno, []):
            last[node.lineno].append(made.program)
            functions.append(replace(made, program=replace(made.program, name=taken.declared(made.program.name))))
    if not functions and not diagnostics:
        why = "a program is a function marked `@T.prim_func`"
        diagnostics.append(Diagnostic("MS736", "there is no program in this text", why=why, path=path))
    return Reading(tuple(functions), tuple(diagnostics))


def intrin(name: str, desc: str, impl: str) -> Intrin:
    """An intrinsic from TVM's pair of functions: a description and an implementation.

    Args:
        name: the intrinsic's name.
        desc: the text of the description. It is the intrinsic's meaning, and runs without the instruction.
        impl: the text of the implementation. Besides declarations it is one call, in which the names of its buffers are
            the operands.

    Raises:
        MsError: as `parse`; MS731, the implementation is more than one call.
    """
    source = Source(impl)
    functions = [f for f in ast.walk(_python(source)) if isinstance(f, ast.FunctionDef) and is_program(f)]
    if len(functions) != 1:
        raise MsError(Diagnostic("MS736", f"there are {len(functions)} programs in the text of the implementation"))
    try:
        return _intrin(name, parse_one(desc), functions[0])
    except Refusal as refusal:
        raise MsError(source.placed(refusal)) from None


def _intrin(name: str, desc: Program, impl: ast.FunctionDef) -> Intrin:
    return Intrin(name, desc, program=desc, texts=((TVM, implementation(impl, desc)),))


def _registered(tree: ast.Module, aliases: frozenset[str], source: Source) -> Iterator[Intrin]:
    """The intrinsics that a file registers with functions of its own, as far as they are calls."""
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef) and is_program(f)}
    known = collect(tree.body, {}, Expressions(aliases))
    for s in tree.body:
        match s:
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(
                        value=ast.Attribute(attr="TensorIntrin") | ast.Name(id="TensorIntrin"), attr="register"
                    ),
                    args=[said, ast.Name(id=desc), ast.Name(id=impl), *_],
                )
            ) if desc in functions and impl in functions:
                name = known.get(said.id) if isinstance(said, ast.Name) else getattr(said, "value", None)
                made, _ = _function(functions[desc], known, Expressions(aliases), source)
                if made is None or not isinstance(name, str):
                    continue
                try:
                    yield _intrin(name, made.program, functions[impl])
                except Refusal:
                    continue


def _no_python(e: SyntaxError, source: Source) -> Diagnostic:
    at = min(source.offset(e.lineno or 1, 0) + max((e.offset or 1) - 1, 0), len(source.text))
    return Diagnostic("MS730", "this is not Python", Span(at, at + 1), why=e.msg, path=source.path)


def programs_in(
    body: list[ast.stmt],
    names: Mapping[str, Value],
    read: Expressions,
    instances: Instances,
    around: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...],
) -> Iterator[tuple[ast.FunctionDef, Mapping[str, Value]]]:
    """The programs in a body, with the names in scope at each; several times where there are several sets of values."""
    known = collect(body, names, read)
    for s in body:
        match s:
            case ast.FunctionDef() if is_program(s):
                yield s, known
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if not any(is_program(x) for x in ast.walk(s)):
                    continue
                for inside in instances.of(s, around, known):
                    yield from programs_in(s.body, inside, read, instances, (*around, s))
            case _:
                for inner in bodies(s):
                    yield from programs_in(inner, known, read, instances, around)


def _function(
    f: ast.FunctionDef, names: Mapping[str, Value], read: Expressions, source: Source
) -> tuple[Function | None, list[Diagnostic]]:
    found: list[Diagnostic] = []
    top = without_return(f.body)
    made = Statements(read, Names(_reserved(f, read.aliases)), top, lambda r: found.append(source.placed(r)))
    try:
        program = _program(f, names, read, made)
        faults = () if found else verify(program)
    except RecursionError:
        found.append(source.placed(refuse("MS731", f, f"`{f.name}` is nested too deeply", _DEEP)))
        return None, found
    except Refusal as refusal:
        found.append(source.placed(refusal))
        return None, found
    except MsError as error:
        found += [replace(d, span=source.span(f), path=source.path) for d in error.diagnostics]
        return None, found
    if not found:
        at = source.span(f)
        found += [replace(d, span=at, path=source.path) for d in faults]
    if found:
        return None, found
    single = {there: here for there, here in made.block_names.items() if there not in made.shared_names}
    return Function(with_names(program, single), dict(made.block_names)), found


def _reserved(f: ast.FunctionDef, aliases: frozenset[str]) -> Iterator[str]:
    """The names that buffers and blocks of a function will need."""
    for a in f.args.args:
        yield a.arg
    for node in ast.walk(f):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func)):
                if dotted(func, aliases) in _DECLARING:
                    yield name
            case ast.withitem(context_expr=ast.Call(func=func), optional_vars=ast.Name(id=name)):
                if dotted(func, aliases) in _DECLARING:
                    yield name
            case ast.Call(func=func, args=[ast.Constant(value=str() as name), *_]):
                if dotted(func, aliases) in ("block", "sblock"):
                    yield name


def _program(f: ast.FunctionDef, names: Mapping[str, Value], read: Expressions, made: Statements) -> Program:
    scope, frame = Scope(names), Frame(function=True)
    _sizes_first(f, scope, made, frame)
    given = [_parameter(f, a, scope, frame, read, made) for a in f.args.args]
    returned = results(f)
    if returned:
        made.result = _result(f, returned[0], read, made)
        made.top = straightened(made.top)
    body = made.body(made.top, scope, frame)
    params: list[Param] = []
    places: list[int] = []
    unused: list[tuple[AttrValue, ...]] = []
    for k, (a, buffer) in enumerate(zip(f.args.args, given, strict=True)):
        buffer = made.declared.matched.get(a.arg) if buffer is None else buffer
        if buffer is not None:
            params.append(Param(buffer))
            places.append(k)
        elif isinstance(scope.names.get(a.arg), Handle):
            unused.append((k, a.arg))
    if made.result is not None:
        params.append(Param(made.result))
        places.append(len(f.args.args))
    notes = (*frame.notes, (UNUSED_POINTERS, tuple(unused))) if unused else frame.notes
    carried = tuple((k, v) for k, v in made.record.annotations if k not in dict(notes))
    program = Program(plain(f.name), tuple(params), body, tuple(frame.allocs), (), (*notes, *carried))
    used = {s.name for s in symbols_of(program)} | {a.arg for a in f.args.args}
    dynamic = tuple(s for s in made.declared.symbols.values() if s.name in used)
    program = replace(program, dynamic=dynamic)
    _check_sizes(f, program, dynamic)
    return with_constants(directed(program, frame.directions), frame.constants, tuple(places))


def _sizes_first(f: ast.FunctionDef, scope: Scope, made: Statements, frame: Frame) -> None:
    """Sizes that stand outside of the function (`n = TypeVar("n")`) are declared in it; what the function says of the
    ranges of its sizes is known before them."""
    for s in f.body:
        match s:
            case ast.Expr(value=ast.Call(func=func) as call) if dotted(func, made.read.aliases) == "func_attr":
                _attributes_of_sizes(call, scope, made, frame)
    own = {a.arg for a in f.args.args}
    for node in ast.walk(f):
        match node:
            case ast.Name(id=name) if name not in own and isinstance(v := scope.names.get(name), Unnamed):
                scope.names[name] = index(made.declared.symbol(name, v.dtype, node, frame), v.dtype)


def _attributes_of_sizes(call: ast.Call, scope: Scope, made: Statements, frame: Frame) -> None:
    match call.args:
        case [ast.Dict(keys=keys, values=values)]:
            for k, v in zip(keys, values, strict=True):
                if isinstance(k, ast.Constant) and k.value == SIZES:
                    only = ast.copy_location(ast.Dict([k], [v]), call)
                    frame.function_attributes(notes_of(made.read, only, scope))


def _parameter(
    f: ast.FunctionDef, a: ast.arg, scope: Scope, frame: Frame, read: Expressions, made: Statements
) -> Buffer | None:
    """A parameter's buffer; None for a handle, and for a size."""
    kind = _unquoted(a, a.annotation)
    dtype = size_type(kind, read.aliases)
    name = dotted(kind.func if isinstance(kind, ast.Call) else kind, read.aliases) if kind is not None else None
    if dtype is not None and (not is_integer(dtype) or is_data(f, a.arg)):
        # A number that is not a size becomes a zero-dimensional array.
        made_of = made.declared.add(Buffer(made.names.declared(a.arg), dtype, ()))
        scope.bind(a.arg, Array(made_of))
        return made_of
    if dtype is not None:
        scope.bind(a.arg, index(made.declared.symbol(a.arg, dtype, a, frame), dtype))
        return None
    if name == "handle":
        scope.bind(a.arg, Handle(a.arg))
        return None
    of = kind.value if isinstance(kind, ast.Subscript) else kind
    if name in _BUFFERS or (of is not None and dotted(of, read.aliases) in _BUFFERS):
        assert kind is not None
        buffer = annotated(read, made.declared, a.arg, kind, scope, frame)
        scope.bind(a.arg, Array(buffer))
        return buffer
    said = "nothing" if a.annotation is None else f"`{text_of(a.annotation)}`"
    raise refuse("MS733", a, f"`{a.arg}` is {said}, not a buffer", help='write `A: T.Buffer((16, 16), "float32")`')


def _result(f: ast.FunctionDef, value: ast.expr, read: Expressions, made: Statements) -> Buffer:
    """The array without dimensions that takes the number that a function returns."""
    dtype = size_type(_unquoted(f, f.returns), read.aliases)
    if dtype is None:
        said = "nothing" if f.returns is None else f"`{text_of(f.returns)}`"
        raise refuse("MS731", value, f"`{text_of(value)}` is returned as {said}", "a function returns one number here")
    return made.declared.add(Buffer(made.names.declared("result"), dtype, ()))


def _unquoted(a: ast.AST, annotation: ast.expr | None) -> ast.expr | None:
    """An annotation, without quotes."""
    match annotation:
        case ast.Constant(value=str() as text):
            try:
                found = parsed_expression(text)
            except SyntaxError:
                raise refuse("MS733", a, f"`{text}` is not an annotation") from None
            for x in ast.walk(found):
                ast.copy_location(x, a)
            return found
    return annotation


def _check_sizes(f: ast.FunctionDef, program: Program, dynamic: tuple[Symbol, ...]) -> None:
    """Check that each size is a parameter or occurs in a parameter's shape."""
    told = {x for q in program.params for e in (*q.buffer.shape, *(q.buffer.strides or ())) for x in walk_expr(e)}
    own = {a.arg for a in f.args.args}
    for s in dynamic:
        if s not in told and s.name not in own:
            raise refuse(
                "MS731", f, f"`{s.name}` cannot be inferred when the kernel is called",
                "a size is a parameter, or known by the shape of one",
            )  # fmt: skip
