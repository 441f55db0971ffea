"""Fixes of syntax errors: the tokens on both sides of an edit stay tokens of their own."""

from __future__ import annotations

import msgspec

from mslang.diagnostics import Diagnostic, Fix


def apart(text: str, diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic of a text, its fixes with the spaces that keep their tokens apart from those around them."""
    if not diagnostic.fixes:
        return diagnostic
    return msgspec.structs.replace(diagnostic, fixes=tuple(_apart(text, fix) for fix in diagnostic.fixes))


def _apart(text: str, fix: Fix) -> Fix:
    """`a;b` without `;` is `a b`, and `2&&3` with `and` is `2 and 3`."""
    before, after = text[: fix.span.start][-1:], text[fix.span.end :][:1]
    if not fix.text:
        return msgspec.structs.replace(fix, text=" ") if _join(before, after) else fix
    first = " " if _join(before, fix.text[0]) else ""
    last = " " if _join(fix.text[-1], after) else ""
    return msgspec.structs.replace(fix, text=f"{first}{fix.text}{last}")


def _join(left: str, right: str) -> bool:
    """Whether two characters side by side may be in one token."""
    return _in_word(left) and _in_word(right)


def _in_word(character: str) -> bool:
    return character.isalnum() or character in ("_", "`")
