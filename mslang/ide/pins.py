"""Completion in `with { … }`: the decisions that can be pinned there."""

from __future__ import annotations

from collections.abc import Iterator

from mslang.ide.candidates import Candidate, Sort
from mslang.ide.cursor import Cursor, enclosing
from mslang.schedule.text import address_text
from mslang.sema.module import Found
from mslang.syntax import tree


def pinned(cursor: Cursor) -> Iterator[Candidate]:
    """The addresses of the decisions of the schedule that is pinned."""
    opening = enclosing(cursor.before)
    if (
        opening is None
        or opening == 0
        or cursor.before[opening].kind != "LBRACE"
        or cursor.before[opening - 1].kind != "WITH"
        or cursor.kind() not in ("LBRACE", "COMMA")
    ):
        return
    head = opening - 1
    while head > 0 and cursor.before[head - 1].kind in ("RPAR", "LPAR", "NAME", "EQUAL", "COMMA", "NUMBER"):
        head -= 1
        thing = cursor.module.find(cursor.before[head].text.strip("`"))
        if isinstance(thing, Found) and isinstance(thing.item, tree.Schedule):
            yield from (
                Candidate(a, Sort.DECISION, f"decision of `{thing.item.name.text}`", insert=f"{address_text(a)} = ")
                for a in decisions_of(thing.item)
            )
            return


def decisions_of(item: tree.Schedule | tree.Fn | tree.Rule) -> tuple[str, ...]:
    """The addresses of the decisions in the text of a schedule."""
    return tuple(dict.fromkeys(_decisions(item.body))) if item.body is not None else ()


def _decisions(body: tree.Body) -> Iterator[str]:
    for s in body.statements:
        match s:
            case tree.Sample(name=name, address=address):
                yield name.text if address is None else address.value
            case tree.Fork(name=name, cases=cases):
                yield "fork" if name is None else name.text
                for c in cases:
                    if isinstance(c, tree.Case):
                        yield from _decisions(c.body)
            case tree.If(body=inner, otherwise=other):
                yield from _decisions(inner)
                if other is not None:
                    yield from _decisions(other)
