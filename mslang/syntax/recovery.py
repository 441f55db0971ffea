"""Making the best of broken text."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.diagnostics import Diagnostic, Span, problem
from mslang.syntax.docs import with_doc
from mslang.syntax.lexer import Token
from mslang.syntax.machine import Machine
from mslang.syntax.split import ITEM_KEYWORDS
from mslang.syntax.tree import BadItem, Name, ParsedItem


def recover_items(text: str, tokens: Sequence[Token], visible: Sequence[Token]) -> tuple[tuple[int, ParsedItem], ...]:
    machine = Machine("item")
    bad = visible[-1]
    for token in visible:
        if not machine.feed(token):
            bad = token
            break
    keyword = next((k for k, t in enumerate(visible) if t.kind in ITEM_KEYWORDS), None)
    name = None
    if keyword is not None and keyword + 1 < len(visible) and visible[keyword + 1].kind == "NAME":
        t = visible[keyword + 1]
        name = Name(Span(t.start, t.end), t.text.strip("`"))
    item = BadItem(Span(visible[0].start, visible[-1].end), (), "", visible[keyword].text if keyword is not None else "", name, text)
    return ((0, ParsedItem(text, with_doc(item, tokens), (problem("MS001", f"unexpected `{bad.text}`", span=Span(bad.start, bad.end)),))),)


def recover_expression(text: str, visible: Sequence[Token]) -> Diagnostic:
    return problem("MS001", "this is not an expression", span=Span(0, len(text)))
