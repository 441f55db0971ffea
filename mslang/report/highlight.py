"""`.ms` text as HTML with its tokens marked."""

from __future__ import annotations

from html import escape

from mslang.syntax.lexer import COMMENTS, tokenize


def highlighted(text: str) -> str:
    """The text as HTML: keywords, numbers, strings and comments in `span`s of the classes `k`, `n`, `s` and `c`.

    Example:
        >>> highlighted("let x = 1")
        '<span class="k">let</span> x = <span class="n">1</span>'
    """
    return "".join(_marked(t.kind, t.text) for t in tokenize(text))


def _marked(kind: str, text: str) -> str:
    style = _style(kind, text)
    return f'<span class="{style}">{escape(text)}</span>' if style else escape(text)


def _style(kind: str, text: str) -> str:
    if kind in COMMENTS:
        return "c"
    if text[:1].isdigit():
        return "n"
    if text[:1] == '"':
        return "s"
    return "k" if text.isidentifier() and kind != "NAME" else ""
