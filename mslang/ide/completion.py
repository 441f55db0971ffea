"""Completion: candidates for the word at the cursor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from mslang.diagnostics import Span
from mslang.ide.candidates import Candidate, Sort, documentation, function_names, named, operation, things, words
from mslang.ide.cursor import Cursor, cursor_at, enclosing
from mslang.ide.declarations import BUFFERS, Role, declarations, visible
from mslang.ide.dynamic_size import DYN
from mslang.ide.imports import used_names
from mslang.ide.pins import pinned
from mslang.ide.signature import called
from mslang.ide.snapshot import Snapshot
from mslang.ide.static import environment, operand_value, program_of
from mslang.ir.dtype import SCALARS
from mslang.ir.program import AXIS_KINDS, LOOP_KINDS, SCOPES
from mslang.ops.signature import Group, Kind, Signature
from mslang.ops.table import SAMPLERS
from mslang.ops.words import ACCESSES, ELEMENT_TYPES, TAILS
from mslang.schedule.check.arguments import methods_of
from mslang.schedule.check.kinds import Binding, Static, accepts, describe
from mslang.schedule.check.scope import PARAM_KINDS
from mslang.sema.check import ATTRIBUTES
from mslang.sema.module import Found, Module, role_of
from mslang.sema.native import TARGET_KINDS
from mslang.sema.targets import field_names
from mslang.sema.within import WORDS as WITHIN
from mslang.syntax import tree
from mslang.syntax.query import expected_at, keywords_at
from mslang.transform.registries import registry_of

__all__ = ["Candidate", "Sort", "completions", "documentation"]

_NAMING = frozenset(
    {
        "LET",
        "AS",
        "BLOCK",
        "ALLOC",
        "VIEW",
        "PROGRAM",
        "SCHEDULE",
        "RULE",
        "FN",
        "SPACE",
        "CONST",
        "TARGET",
        "INTRIN",
        "FORK",
        "CASE",
    }
)
"""After these keywords a new name follows, which is not completed."""

_IN_EXPRESSIONS = frozenset(
    {"true", "false", "not", "and", "or", "fn", "if", "for", "in", "out", "inout", "const", "block", "intrin"}
)
_TESTING = frozenset({"check", "snapshot"})
_SCHEDULING = frozenset({"fork", "case", "require", "return"}) | _TESTING
_COMPUTING = frozenset({"alloc", "view", "block", "attr", "init", "reads", "writes", "where", "while"})

_THREADS = tuple(sorted(k for k in LOOP_KINDS if "." in k))


def completions(snapshot: Snapshot, path: str, offset: int) -> tuple[Candidate, ...]:
    """What could stand at an offset; none in comments and strings, and where a new name is made.

    Raises:
        MsError: the file cannot be read.
    """
    cursor = cursor_at(snapshot, path, offset)
    if cursor.silent:
        return ()
    found = dict.fromkeys(_candidates(cursor, snapshot))
    return tuple(map(_without_ticks, found) if _after_tick(cursor) else found)


def _after_tick(cursor: Cursor) -> bool:
    """Whether the word follows a backtick."""
    before = cursor.replaced.start - cursor.start - 1
    return cursor.placed is not None and before >= 0 and cursor.placed.parsed.text[before] == "`"


def _without_ticks(c: Candidate) -> Candidate:
    return replace(c, insert=None) if c.insert == f"`{c.label}`" else c


def replaced(snapshot: Snapshot, path: str, offset: int) -> Span:
    """The word at an offset, which a candidate replaces."""
    return cursor_at(snapshot, path, offset).replaced


def _candidates(cursor: Cursor, snapshot: Snapshot) -> Iterable[Candidate]:
    item = cursor.placed.item if cursor.placed is not None else None
    if cursor.before and cursor.before[0].kind == "USE" and not _starts_line(cursor):
        return used_names(cursor, snapshot.read)
    if "@" in (place := _place(cursor)):
        return _after_at(cursor, item, place)
    match cursor.kind():
        case "DOT" | "DANGLING_DOT":
            return _members(cursor)
        case "TILDE":
            return (operation(s, method=False) for s in SAMPLERS)
        case "COLON":
            return _types(cursor, item)
        case kind if kind in _NAMING and not _names_target(cursor):
            return ()
    if _after_range(cursor, item):
        return words(WITHIN, Sort.VALUE, "relation between the elements", first=True)
    if (call := called(cursor)) is not None and call.signature is DYN:
        return (*_in_call(cursor, item), *(c for c in things(cursor.module) if c.sort is Sort.CONST))
    pins = tuple(pinned(cursor))
    return pins or (*_in_call(cursor, item), *_words(cursor, item))


def _starts_line(cursor: Cursor) -> bool:
    """Whether the word begins its line, where an item would."""
    assert cursor.placed is not None
    return cursor.placed.parsed.text[: cursor.replaced.start - cursor.start].endswith("\n")


_CONTINUED = frozenset({"SUM", "MUL", "STAR", "DOTDOT", "LPAR", "LSQB", "DOT"})
"""After these tokens an expression goes on."""


def _after_range(cursor: Cursor, item: tree.AnyItem | None) -> bool:
    """Whether the word follows the range of a parameter's values: `at: i32[N] in 0..V `."""
    opening = enclosing(cursor.before)
    if opening is None or cursor.before[opening].kind != "LPAR" or _role(item) not in ("program", "intrin"):
        return False
    kinds = [t.kind for t in cursor.before[opening + 1 :]]
    start = len(kinds) - kinds[::-1].index("COMMA") if "COMMA" in kinds else 0
    return "IN" in kinds[start:] and "DOTDOT" in kinds[start:-1] and cursor.kind() not in _CONTINUED


def _names_target(cursor: Cursor) -> bool:
    return cursor.kind() == "BLOCK" and cursor.kind(2) == "COLON"


# ------------------------------------------------------------------ after `@`, `:` and `.`
def _place(cursor: Cursor) -> str:
    """The text from an `@` to the word, if only a dotted name stands between."""
    k = len(cursor.before)
    while k > 0 and (cursor.before[k - 1].kind == "DOT" or cursor.before[k - 1].text[0].isidentifier()):
        k -= 1
    if k == 0 or cursor.before[k - 1].kind != "AT":
        return ""
    return "".join(t.text for t in cursor.before[k - 1 :])


def _after_at(cursor: Cursor, item: tree.AnyItem | None, place: str) -> Iterator[Candidate]:
    prefix = place.removeprefix("@")
    if len(cursor.before) == 1 or item is None:
        yield from words(ATTRIBUTES[tree.Rule], Sort.KEYWORD, "attribute of a rule")
        return
    heads = [t.kind for t in cursor.before]
    last = max((k for k, kind in enumerate(heads) if kind in ("FOR", "BLOCK", "ALLOC", "VIEW", "LBRACE")), default=-1)
    choices: tuple[Iterable[str], str]
    match heads[last] if last >= 0 else "":
        case "FOR":
            choices = LOOP_KINDS, "loop kind"
        case "BLOCK":
            choices = AXIS_KINDS, "kind of axis"
        case _:
            choices = SCOPES, "scope"
    fitting = [w.removeprefix(prefix) for w in sorted(choices[0]) if w.startswith(prefix)]
    yield from words(fitting, Sort.VALUE, choices[1])


def _types(cursor: Cursor, item: tree.AnyItem | None) -> Iterator[Candidate]:
    if _role(item) in ("schedule", "rule", "fn"):
        yield from words(PARAM_KINDS, Sort.KIND, "kind of parameter")
    elif (opening := enclosing(cursor.before)) is not None and _role(item) in ("program", "intrin"):
        if cursor.before[opening].kind == "LSQB":
            yield from words(("dyn",), Sort.FUNCTION, "a size known only at the call")
            if isinstance(item, tree.Program | tree.Intrin):
                yield from _program_names(item, cursor.relative)
        else:
            yield from words(sorted(SCALARS), Sort.KIND, "element type")
    else:
        yield from words(sorted(SCALARS), Sort.KIND, "element type")


def _members(cursor: Cursor) -> Iterator[Candidate]:
    tokens = cursor.before[:-1]
    if tokens and tokens[-1].text == "machine" and cursor.placed is not None:
        item = cursor.placed.item
        target = item.target if isinstance(item, tree.Schedule | tree.Space) else None
        name = "" if target is None else cursor.placed.parsed.text[target.span.start : target.span.end]
        yield from words(sorted(_fields(cursor.module, name)), Sort.FIELD, "field of the target")
        return
    scoped = tokens and (tokens[-1].text in ("blockIdx", "threadIdx", "vthread", "wmma", "mma", "shared"))
    if scoped:
        head = tokens[-1].text + "."
        parts = (w.removeprefix(head) for w in (*sorted(SCOPES), *_THREADS) if w.startswith(head))
        yield from words(parts, Sort.VALUE, "")
        return
    value = operand_value(cursor, tokens)
    yield from (named(a, Sort.AXIS, "axis") for a in value.axes or ())
    if value.kind is Kind.ANY:
        yield from _module_members(cursor)
    yield from (operation(s, method=True) for s in methods_of(value.kind, registry_of(cursor.module)))
    if value.kind in (Kind.LOOP, Kind.BLOCK):
        yield from _callables(cursor.module, value)


def _callables(module: Module, value: Static) -> Iterator[Candidate]:
    """Rules and fns that take the value first: `b.my_rule()`."""
    for candidate in things(module):
        signature = candidate.signature
        if (
            signature is not None
            and signature.params
            and accepts(signature.params[0].kind, value)
            and candidate.sort in (Sort.RULE, Sort.FUNCTION)
            and signature.params[0].kind is not Kind.ANY
        ):
            yield candidate


def _module_members(cursor: Cursor) -> Iterator[Candidate]:
    dotted = _place_of_name(cursor)
    if dotted:
        yield from things(cursor.module, dotted)


def _place_of_name(cursor: Cursor) -> str:
    k = len(cursor.before)
    while k > 0 and (cursor.before[k - 1].kind == "DOT" or cursor.before[k - 1].text[0].isidentifier()):
        k -= 1
    return "".join(t.text for t in cursor.before[k:]).rstrip(".")


def _fields(module: Module, target: str) -> tuple[str, ...]:
    thing = module.find(target)
    if isinstance(thing, Found) and isinstance(thing.item, tree.Target):
        return field_names(thing.module, thing.item.name.text)
    from mslang.target.description import GENERIC

    return tuple(GENERIC.fields)


# ------------------------------------------------------------------ in a call
def _in_call(cursor: Cursor, item: tree.AnyItem | None) -> Iterator[Candidate]:
    call = called(cursor)
    if call is None:
        return
    if cursor.kind() == "EQUAL" and cursor.kind(2) not in ("", "LPAR"):
        name = cursor.before[-2].text
        kind = next((p.kind for p in call.signature.params if p.name == name), None)
        yield from _of_kind(kind)
        return
    opening = enclosing(cursor.before)
    if cursor.kind() not in ("LPAR", "COMMA") or opening is None or cursor.before[opening].kind != "LPAR":
        return
    for p in call.parameters:
        if p.name not in call.given and not p.variadic:
            yield Candidate(p.name, Sort.PARAMETER, f"{p.name}: {p.kind.value}", insert=f"{p.name} = ", first=True)
    if call.parameter is not None:
        yield from _of_kind(call.parameter.kind)


def _of_kind(kind: Kind | None) -> Iterator[Candidate]:
    match kind:
        case Kind.SCOPE:
            yield from words(sorted(SCOPES), Sort.VALUE, "scope", first=True)
        case Kind.TAIL:
            yield from words(TAILS, Sort.VALUE, "how a remainder is run", first=True)
        case Kind.ACCESS:
            yield from words(ACCESSES, Sort.VALUE, "how a buffer is accessed", first=True)
        case Kind.DTYPE:
            yield from words(ELEMENT_TYPES, Sort.VALUE, "element type", first=True)
        case Kind.AXIS:
            yield from words(_THREADS, Sort.VALUE, "thread axis", first=True)
        case Kind.BOOL:
            yield from words(("true", "false"), Sort.VALUE, "")


# ------------------------------------------------------------------ names and keywords
def _words(cursor: Cursor, item: tree.AnyItem | None) -> Iterator[Candidate]:
    file = cursor.module.file
    if cursor.placed is None:
        yield from words(keywords_at(file, cursor.offset), Sort.KEYWORD, "")
        return
    yield from _keywords(cursor, item)
    if "NAME" not in expected_at(file, cursor.offset):
        return
    match cursor.kind():
        case "FOR" if _role(item) != "program" and _in_header(cursor):
            yield from (c for c in things(cursor.module) if c.sort is Sort.PROGRAM)
            return
        case "ON":
            yield from (c for c in things(cursor.module) if c.sort is Sort.TARGET)
            yield from words(TARGET_KINDS, Sort.TARGET, "kind of target")
            return
    if isinstance(item, tree.Program | tree.Intrin):
        yield from _program_names(item, cursor.relative)
        yield from function_names()
        yield from (c for c in things(cursor.module) if c.sort is Sort.CONST)
    elif _role(item) == "space":
        yield from (c for c in things(cursor.module) if c.sort in (Sort.SCHEDULE, Sort.SPACE, Sort.RULE, Sort.FUNCTION))
    elif _role(item) in ("target", "const"):
        yield from (c for c in things(cursor.module) if c.sort in (Sort.CONST, Sort.TARGET))
    else:
        yield from _schedule_names(cursor, item)


def _role(item: tree.AnyItem | None) -> str:
    """The keyword of an item, even if its header is incomplete."""
    return "" if item is None else role_of(item)


def _in_header(cursor: Cursor) -> bool:
    return all(t.kind != "LBRACE" for t in cursor.before)


def _keywords(cursor: Cursor, item: tree.AnyItem | None) -> Iterator[Candidate]:
    """The keywords that fit: the grammar takes all statements everywhere, and any word as the name of an argument."""
    opening = enclosing(cursor.before)
    found = set(keywords_at(cursor.module.file, cursor.offset))
    if opening is not None and cursor.before[opening].kind != "LBRACE":
        found &= _IN_EXPRESSIONS
    elif opening is not None and isinstance(item, tree.Program | tree.Intrin):
        found -= _SCHEDULING
    elif opening is not None:
        found -= _COMPUTING if isinstance(item, tree.Test) else _COMPUTING | _TESTING
    yield from words(sorted(found), Sort.KEYWORD, "")


def _program_names(item: tree.Program | tree.Intrin, offset: int) -> Iterator[Candidate]:
    sorts = {Role.SIZE: Sort.SIZE, Role.AXIS: Sort.AXIS, Role.LOOP: Sort.LOOP, Role.LET: Sort.VALUE}
    for name in visible(item, offset).values():
        if name.role is not Role.BLOCK:
            yield named(name.text, Sort.BUFFER if name.role in BUFFERS else sorts[name.role], name.role.value)


def _schedule_names(cursor: Cursor, item: tree.AnyItem | None) -> Iterator[Candidate]:
    names = environment(cursor)
    for name, binding in names.items():
        if binding.death is None or not binding.death.certain:
            yield named(name, _sort(binding), describe(binding.value), first=binding.span is not None)
    yield from things(cursor.module)
    if not isinstance(item, tree.Test):
        yield from (operation(s, method=False) for s in registry_of(cursor.module).operations.values() if _free(s))
    found = program_of(cursor.module, item) if item is not None else None
    if found is not None and not names:
        assert isinstance(found.item, tree.Program)
        yield from (named(n.text, Sort.BLOCK, "block") for n in declarations(found.item) if n.role is Role.BLOCK)


def _free(s: Signature) -> bool:
    """Whether an operation can also be called as a function: `reorder(i, j)`."""
    return s.group is Group.PRIMITIVE


def _sort(binding: Binding) -> Sort:
    match binding.value.kind:
        case Kind.BLOCK:
            return Sort.BLOCK
        case Kind.LOOP:
            return Sort.LOOP
        case Kind.BUFFER:
            return Sort.BUFFER
        case Kind.SIZE:
            return Sort.SIZE
        case Kind.TILE:
            return Sort.DECISION
    return Sort.VALUE
