"""Reading `.ms` text: a file is split into items, each parsed alone and cached by its text; parsing never fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mslang.caching import cached
from mslang.diagnostics import SyntaxProblem, problem
from mslang.syntax.docs import with_doc
from mslang.syntax.lexer import ERROR, Token, significant, tokenize
from mslang.syntax.machine import Machine
from mslang.syntax.split import find_pieces
from mslang.syntax.tree import Expr, File, ParsedItem, PlacedItem


def parse_file(path: str, text: str) -> File:
    """The tree of a whole file. Items with a known text are not parsed again."""
    starts = find_pieces(text)
    ends = [*starts[1:], len(text)]
    items = tuple(
        PlacedItem(start + offset, parsed)
        for start, end in zip(starts, ends, strict=False)
        for offset, parsed in parse_piece(text[start:end])
    )
    return File(path, text, text[: starts[0]] if starts else text, items)


def reparse(old: File, text: str) -> File:
    """The tree of a file's changed text: the same as `parse_file`, but only the changed part is read."""
    return old if old.text == text else parse_file(old.path, text)


def parse_item(text: str) -> ParsedItem:
    """The only item of `text`, with its diagnostics.

    Raises `SyntaxProblem` if there is none or several.
    """
    file = parse_file("", text)
    if len(file.items) == 1:
        return file.items[0].parsed
    found = "none" if not file.items else f"{len(file.items)}"
    raise SyntaxProblem(*file.diagnostics, problem("MS009", f"expected one item, found {found}"))


def parse_expression(text: str) -> Expr:
    """The expression in `text`.

    Raises `SyntaxProblem` if it is not one.
    """
    visible = significant(tokenize(text))
    expression = _parse(visible, "expr")
    if expression is None:
        from mslang.syntax import messages
        from mslang.syntax.recovery import Recovery

        outcome = Recovery(text, visible, "expr").run()
        rest = outcome.tokens[outcome.read : outcome.read + 1]
        raise SyntaxProblem(*outcome.diagnostics, *(messages.unexpected(token, frozenset(), None) for token in rest))
    return expression  # type: ignore[no-any-return]


@cached(budget=1 << 20, weight=lambda items, text: 100 + len(text))
def parse_piece(text: str) -> tuple[tuple[int, ParsedItem], ...]:
    """The items in a piece of a file as made by the splitter, each with its offset; exactly one unless it is broken."""
    tokens = tokenize(text)
    visible = significant(tokens)
    item = _parse(visible, "item")
    if item is None:
        # Imported only for broken text: this makes the start faster for valid files.
        from mslang.syntax.broken import recover_items

        return recover_items(text)
    return ((0, ParsedItem(text, with_doc(item, tokens))),)


def _parse(visible: Sequence[Token], start: str) -> Any:
    """The value of tokens without syntax errors, or None."""
    machine = Machine(start)
    for token in visible:
        if token.kind == ERROR or not machine.feed(token):
            return None
    return machine.finish()
