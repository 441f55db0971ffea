"""Programs from their items: instantiation with sizes, and long-form text read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from mslang.caching import cached
from mslang.diagnostics import Diagnostic, MsError, Severity, Span, bounded_depth, problem
from mslang.ir.dtype import SCALARS
from mslang.ir.expr import DynamicRange, Expr, Symbol
from mslang.ir.program import Param, Program
from mslang.ir.verify import verify
from mslang.sema.declare import Declarations
from mslang.sema.elaborate import Elaborator, Part
from mslang.sema.lint import lint
from mslang.sema.module import Found, Module
from mslang.sema.packing import packing
from mslang.sema.provable import provable_faults
from mslang.sema.refer import dotted_names, nodes
from mslang.sema.report import fault, unknown
from mslang.sema.scope import Broken, ConstName, Declared, Meaning, Scope, SizeName
from mslang.sema.sizes import Sizes, declared, whole
from mslang.sema.values import const_value
from mslang.sema.within import within
from mslang.suggestions import did_you_mean
from mslang.syntax import tree

NO_SIZES: Sizes = MappingProxyType({})

Consts = tuple[tuple[str, int | float | bool | None], ...]
"""The consts that a program refers to, by the names it uses for them; None for one that is faulty."""


class SourceMap(msgspec.Struct, frozen=True):
    """Where in the item each block, loop, buffer and axis (by block and name) of a program is declared."""

    blocks: Mapping[str, Span] = MappingProxyType({})
    loops: Mapping[str, Span] = MappingProxyType({})
    buffers: Mapping[str, Span] = MappingProxyType({})
    axes: Mapping[tuple[str, str], Span] = MappingProxyType({})


class Elaborated(msgspec.Struct, frozen=True):
    """A program as far as it could be made, what was found, and its source map; spans count from the item's start."""

    program: Program
    source: SourceMap
    diagnostics: tuple[Diagnostic, ...]
    complete: bool = True
    """Whether all of the text is in the program; where not, a diagnostic says so, here or in another item."""

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)


def elaborate(item: tree.Program, sizes: Sizes = NO_SIZES, consts: Consts = (), *, exact: bool = False) -> Elaborated:
    """The IR of a program item.

    Args:
        item: the item.
        sizes: values of its size parameters; those absent take their default.
        consts: the consts that it may name.
        exact: read a long form as it stands: no `let` becomes a size.
    """
    return _build(item, sizes, consts, exact, open_sizes=False)[0]


def _build(
    item: tree.Program, sizes: Sizes, consts: Consts, exact: bool, open_sizes: bool
) -> tuple[Elaborated, Declarations]:
    known = {s.name.text for s in item.sizes}
    made = Elaborator(exact, reserved=known | _own_names(item))
    for name in sizes:
        if name not in known:
            listed = f"its sizes are {', '.join(s.name.text for s in item.sizes)}" if known else "it has no sizes"
            what = f"size of program `{item.name.text}`:"
            made.diagnostics.append(unknown("MS112", item.name, what, name, known, why=listed))
    scope, dynamic = _sizes(item, sizes, consts, made, open_sizes)
    scope = _undeclared_sizes(item, scope, made)
    params: list[Param] = []
    for p in item.params:
        outer = scope
        scope, buffer = made.declared.buffer(p.name, p.type, scope, p.direction)
        if buffer is None:
            scope = _with_name_for_type(p, scope)
            continue
        try:
            packed = None if p.default is None else packing(p.default, buffer, outer)
            held = None if p.within is None else within(p.within, buffer, p.direction, outer)
        except MsError as e:
            made.declared.report(e)
            continue
        params.append(Param(buffer, p.direction, packed, held, p.constant))
    part = Part()
    body = made.statements(item.body.statements, scope, part)
    program = Program(item.name.text, tuple(params), body, tuple(part.allocs), dynamic, part.annotations)
    names = made.declared
    if not exact and names.complete and not made.diagnostics:
        made.diagnostics.extend(_ill_formed(item, program, names))
        if not made.diagnostics:
            made.diagnostics.extend(provable_faults(item, program, names))
    source = SourceMap(names.blocks, names.loops, names.buffers, names.axes)
    return Elaborated(program, source, tuple(made.diagnostics), names.complete), names


def _with_name_for_type(p: tree.Param, scope: Scope) -> Scope:
    """The scope after a faulty parameter: of `f32 A`, read as `f32: A`, uses of `A` are not reported again."""
    named = p.type.name.text
    return scope.with_name(named, Broken()) if p.name.text in SCALARS and scope.get(named) is None else scope


def _undeclared_sizes(item: tree.Program, scope: Scope, made: Elaborator) -> Scope:
    """Report each name in the shape of a parameter that nothing declares, once; further uses of it are not reported."""
    for p in item.params:
        for ref in (n for e in p.type.shape or () for n in nodes(e) if isinstance(n, tree.Ref)):
            name = ref.name.text
            if scope.get(name) is not None or did_you_mean(name, scope.names) is not None:
                continue
            sizes = ", ".join([s.name.text for s in item.sizes] + [f"{name} = …"])
            made.diagnostics.append(
                fault(
                    "MS101",
                    ref,
                    f"unknown size `{name}`",
                    help=f"declare the size: `program {item.name.text}[{sizes}](…)`",
                )
            )
            scope = scope.with_name(name, Broken())
    return scope


def _own_names(item: tree.Program) -> set[str]:
    """The names of a program's buffers and blocks, which no loop takes."""
    declaring = (tree.Param, tree.Alloc, tree.View, tree.Block)
    return {n.name.text for n in nodes(item) if isinstance(n, declaring)}


def _ill_formed(item: tree.Program, program: Program, names: Declarations) -> Iterator[Diagnostic]:
    """What `verify` finds, at the block that it names."""
    for d in verify(program):
        at = next((span for name, span in names.blocks.items() if f"(block `{name}`)" in d.message), item.name.span)
        yield d.at(at)


def _sizes(
    item: tree.Program, sizes: Sizes, consts: Consts, made: Elaborator, open_sizes: bool
) -> tuple[Scope, tuple[Expr, ...]]:
    scope = Scope(MappingProxyType({n: Declared(Broken() if v is None else ConstName(v)) for n, v in consts}))
    seen: dict[str, Span] = {}
    dynamic: list[Expr] = []
    for s in item.sizes:
        name = s.name.text
        meaning: Meaning = Broken()
        try:
            if name in seen:
                made.diagnostics.append(fault("MS102", s.name, f"size `{name}` is declared twice"))
            meaning = declared(s, sizes.get(name), scope, open_sizes)
        except MsError as e:
            made.declared.report(e)
        seen[name] = s.name.span
        scope = scope.with_name(name, meaning, s.name.span)
        if (
            isinstance(meaning, SizeName)
            and isinstance(meaning.value, Symbol)
            and isinstance(meaning.value.domain, DynamicRange)
            and meaning.value not in dynamic
        ):
            dynamic.append(meaning.value)
    return scope, tuple(dynamic)


@cached(budget=1 << 19, weight=lambda result, item, *rest: 1000 + item.span.end)
def elaborated(item: tree.Program, sizes: tuple[tuple[str, int | Symbol], ...], consts: Consts) -> Elaborated:
    """`elaborate`, remembered."""
    return elaborate(item, dict(sizes), consts)


@cached(budget=1 << 19, weight=lambda result, item, *rest: 1000 + item.span.end)
def checked(item: tree.Program, consts: Consts) -> tuple[Diagnostic, ...]:
    """Everything that is found about a program item. Sizes without a value stand for any size."""
    made, names = _build(item, NO_SIZES, consts, exact=False, open_sizes=True)
    if made.errors or not made.complete:
        return made.diagnostics
    return (*made.diagnostics, *lint(item, made.program, names))


def consts_of(module: Module, item: tree.AnyItem) -> Consts:
    """The consts that an item of a module refers to."""
    found: list[tuple[str, int | float | bool | None]] = []
    for name in dotted_names(item):
        if name in module.lost:
            found.append((name, None))
            continue
        thing = module.find(name)
        if isinstance(thing, Found) and isinstance(thing.item, tree.Const):
            value = const_value(module, name)
            found.append((name, value if isinstance(value, bool | int | float) else None))
    return tuple(found)


def instantiate(module: Module, name: str, sizes: Sizes = NO_SIZES) -> Program:
    """The program `name` of a module, its own or used, with values for its sizes.

    Args:
        module: the module.
        name: the program's name; dots are allowed.
        sizes: values by size name; those absent take their default. A `Symbol` leaves a size open.

    Raises:
        MsError: there is no such program, a size is missing or unfit, or the program has faults.
    """
    return instantiate_with_source(module, name, sizes).program


def instantiate_with_source(module: Module, name: str, sizes: Sizes = NO_SIZES) -> Elaborated:
    """`instantiate`, with the source map (and what was found short of errors)."""
    found = find_program(module, name)
    syntax = found.placed.parsed.diagnostics
    assert isinstance(found.item, tree.Program)
    made = elaborated(found.item, tuple(whole(sizes).items()), consts_of(found.module, found.item))
    errors = tuple(
        d.placed(found.module.path, found.placed.start) for d in (*syntax, *made.errors) if d.severity is Severity.ERROR
    )
    if errors:
        raise MsError(*errors)
    if not made.complete:
        raise MsError(*(found.module.problems or (problem("MS128", f"`{name}` is faulty"),)))
    return made


def size_values(module: Module, name: str, sizes: Sizes = NO_SIZES) -> Mapping[str, Expr]:
    """The value of each size of a program of a module: as given, else its default or, if it is dynamic, its symbol.

    Raises:
        MsError: there is no such program, or a value is no whole number.
    """
    found = find_program(module, name)
    assert isinstance(found.item, tree.Program)
    consts = consts_of(found.module, found.item)
    scope, _ = _sizes(found.item, whole(sizes), consts, Elaborator(exact=False), open_sizes=False)
    meanings = {s.name.text: scope.get(s.name.text) for s in found.item.sizes}
    return {n: m.value for n, m in meanings.items() if isinstance(m, SizeName)}


def find_program(module: Module, name: str) -> Found:
    """The program item that a name means in a module.

    Raises:
        MsError: it means none.
    """
    match module.find(name):
        case Found(item=tree.Program()) as found:
            return found
        case None:
            help = f"the programs are {', '.join(module.programs)}" if module.programs else None
            raise MsError(_unplaced(unknown("MS101", Span(0, 0), "program", name, module.programs, help=help)))
    raise MsError(problem("MS128", f"`{name}` is not a program"))


def _unplaced(d: Diagnostic) -> Diagnostic:
    return msgspec.structs.replace(d, span=None, fixes=())


def sizes_by_position(item: tree.Program, values: Sequence[int | Symbol]) -> Sizes:
    """The sizes that `p[64, 48]` gives: values in the order of declaration.

    Raises:
        MsError: there are more values than sizes.
    """
    if len(values) > len(item.sizes):
        raise MsError(
            problem(
                "MS112",
                f"`{item.name.text}` has {len(item.sizes)} sizes, but {len(values)} are given",
                help=f"they are {', '.join(s.name.text for s in item.sizes)}" if item.sizes else None,
            )
        )
    return {s.name.text: v for s, v in zip(item.sizes, values)}


def intrin_program(module: Module, item: tree.Intrin, body: tree.Body | None = None) -> Elaborated:
    """The meaning of an intrinsic as a program (or, given the body of an `impl`, that implementation)."""
    return elaborated(as_program(item, body), (), consts_of(module, item))


def as_program(item: tree.Intrin, body: tree.Body | None = None) -> tree.Program:
    """An intrinsic's `desc` (or the body of an `impl`) as a program item, spans as they are."""
    return tree.Program(item.span, (), "", item.name, (), item.params, item.desc if body is None else body)


def parse_program(text: str) -> Program:
    """The program that the text of one `program` item describes: the inverse of `mslang.ir.print.print_program`.

    Raises:
        MsError: the text is not a program, or has faults; spans count from the start of `text`.
    """
    from mslang.syntax.parse import parse_item

    if text.startswith("\ufeff"):
        text = f" {text[1:]}"  # as in a file, a byte order mark is no part of the text; spans stay
    with bounded_depth("the program"):
        parsed = parse_item(text)
        if parsed.diagnostics:
            raise MsError(*parsed.diagnostics)
        if not isinstance(parsed.item, tree.Program):
            raise MsError(fault("MS128", Span(0, len(text)), "one `program` item is needed here"))
        found = elaborate(parsed.item, exact=True)
    if found.errors or not found.complete:
        raise MsError(*found.errors)
    return found.program
