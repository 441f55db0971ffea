"""What completion offers: names with their sort, signature and documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from mslang.ir.text import name_text
from mslang.ops.infos import info_of
from mslang.ops.signature import Signature
from mslang.sema.expressions import BUILTINS
from mslang.sema.module import Module, Whole, exported, member
from mslang.transform.registries import registry_of


class Sort(StrEnum):
    """What a candidate is."""

    KEYWORD = "keyword"
    OPERATION = "operation"
    FUNCTION = "fn"
    RULE = "rule"
    SCHEDULE = "schedule"
    SPACE = "space"
    PROGRAM = "program"
    INTRINSIC = "intrin"
    TARGET = "target"
    CONST = "const"
    MODULE = "module"
    PARAMETER = "parameter"
    FIELD = "field"
    KIND = "kind"
    AXIS = "axis"
    LOOP = "loop"
    BLOCK = "block"
    BUFFER = "buffer"
    SIZE = "size"
    DECISION = "decision"
    VALUE = "value"


class Candidate(msgspec.Struct, frozen=True):
    """Something that could be written: its text, what it is, one line on it, and what is inserted if that is more.

    `first` says that it fits better than others; `key` is what `documentation` is asked for.
    """

    label: str
    sort: Sort
    detail: str = ""
    insert: str | None = None
    first: bool = False
    key: str | None = None
    signature: Signature | None = None


def words(texts: Iterable[str], sort: Sort, detail: str, first: bool = False) -> Iterator[Candidate]:
    """Plain words."""
    return (Candidate(w, sort, detail, first=first) for w in texts)


def named(label: str, sort: Sort, detail: str = "", first: bool = False) -> Candidate:
    """A name that the text declares: in backticks where it needs them."""
    written = name_text(label)
    return Candidate(label, sort, detail, insert=None if written == label else written, first=first)


def operation(signature: Signature, method: bool) -> Candidate:
    """An operation, after a dot or as a function."""
    return Candidate(
        signature.name,
        Sort.OPERATION,
        signature.text,
        key=f"operation:{signature.name}",
        first=method,
        signature=signature,
    )


def function_names() -> Iterator[Candidate]:
    """The functions of programs."""
    return words(sorted(BUILTINS), Sort.FUNCTION, "function")


def things(module: Module, inside: str | None = None) -> Iterator[Candidate]:
    """The items that a module can name, or those of a module that it names (`inside`)."""
    if inside is None:
        names = {n: module.find(n) for n in module.names}
    else:
        whole = module.find(inside)
        names = {n: member(whole, n) for n in exported(whole)} if isinstance(whole, Whole) else {}
    for name, thing in names.items():
        if thing is not None:
            known = info_of(thing, name)
            whole_name = name if inside is None else f"{inside}.{name}"
            found = named(name, Sort(known.role), known.header)
            yield replace(found, key=f"name:{whole_name}", signature=known.signature)


def documentation(module: Module, key: str) -> str:
    """The documentation of a candidate by its key, as Markdown; "" if there is none."""
    from mslang.ide.pages import operation_doc, rendered

    role, _, name = key.partition(":")
    if role == "operation":
        registry = registry_of(module)
        return f"```mslang\n{registry.signature(name).text}\n```\n\n{rendered(operation_doc(name, registry))}"
    thing = module.find(name)
    if thing is None:
        return ""
    known = info_of(thing, name)
    return f"```mslang\n{known.header}\n```\n\n{known.doc}"
