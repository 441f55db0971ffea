"""Spaces between tokens: the horizontal half of the layout."""

from __future__ import annotations

from mslang.syntax.lexer import Token

_TIGHT_AFTER = frozenset({"LPAR", "LSQB", "DOT"})
_TIGHT_BEFORE = frozenset({"RPAR", "RSQB", "COMMA", "DOT", "COLON"})
_CALLEE_ENDS = frozenset({"NAME", "RPAR", "RSQB"})
_TYPE_WORDS = frozenset({"BLOCK", "INTRIN"})
# After one of these an operator has no left operand, so `-` is a sign and `*` unpacks a list.
_OPERAND_ENDS = frozenset({"NAME", "NUMBER", "STRING", "SIZE", "TRUE", "FALSE", "HOLE", "RPAR", "RSQB", "ERROR"})


def needs_space(before: Token | None, token: Token, after: Token, tight: frozenset[int]) -> bool:
    """Whether a space separates `token` and `after`; `before` precedes both.

    `tight` holds the offsets of the `..` and `@` without spaces.
    """
    if token.kind in _TIGHT_AFTER or after.kind in _TIGHT_BEFORE:
        return False
    if token.start in tight or (after.start in tight and after.kind == "DOTDOT"):
        return False
    if token.kind in ("SUM", "STAR") and is_prefix(before):
        return False
    return after.kind not in ("LPAR", "LSQB") or not _is_callee(before, token, after)


def is_prefix(before: Token | None) -> bool:
    """Whether an operator after `before` has no left operand."""
    return before is None or before.kind not in _OPERAND_ENDS


def _is_callee(before: Token | None, token: Token, opener: Token) -> bool:
    if token.kind in _CALLEE_ENDS:
        return True
    if before is not None and before.kind == "DOT":
        return True
    return token.kind in _TYPE_WORDS and opener.kind == "LSQB"
