"""Lines and columns of broken text: a hint to recovery, never part of the language."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.syntax.lexer import BLANKS, ERROR, Token
from mslang.syntax.tables import END

_BALANCE = {"LBRACE": 1, "RBRACE": -1}


class Layout:
    """Lines and columns of the tokens of one item, and the balance of its braces."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._balances = [0]
        for token in reversed(tokens):
            self._balances.append(self._balances[-1] + _BALANCE.get(token.kind, 0))
        self._balances.reverse()

    def balance_from(self, index: int) -> int:
        """The number of `{` minus the number of `}` from a token on."""
        return self._balances[min(index, len(self._balances) - 1)]

    def column(self, token: Token) -> int:
        """The column of a token, the first being 0."""
        return token.start - self.line(token)

    def first_on_line(self, token: Token) -> bool:
        """Whether only white space precedes the token on its line."""
        return not self._text[self.line(token) : token.start].strip(BLANKS)

    def indentation(self, token: Token) -> int:
        """The column of the first text on the token's line."""
        line = self._text[self.line(token) : token.start]
        return len(line) - len(line.lstrip(BLANKS)) if line.strip(BLANKS) else len(line)

    def same_line(self, first: Token, second: Token) -> bool:
        """Whether two tokens start on the same line."""
        return self.line(first) == self.line(second)

    def line(self, token: Token) -> int:
        """The offset of the start of the token's line; the end of the text is a line of its own, newline or not."""
        if token.kind == END:
            return token.start
        return self._text.rfind("\n", 0, token.start) + 1


def mend_errors(text: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens with an unclosed string extended to the end of its line, and adjacent bad characters merged."""
    found: list[Token] = []
    for token in tokens:
        if found and found[-1].kind == ERROR:
            last = found[-1]
            if token.start < last.end:
                continue
            if token.kind == ERROR and token.start == last.end and token.text != '"':
                found[-1] = Token(ERROR, last.text + token.text, last.start, token.end)
                continue
        if token.kind == ERROR and token.text == '"':
            found.append(_unclosed_string(text, token, found))
        else:
            found.append(token)
    return found


def _unclosed_string(text: str, quote: Token, before: list[Token]) -> Token:
    """An unclosed string: a quote and the remainder of the line, or of the item if `\"\"\"` opens it."""
    start = quote.start
    if before and before[-1].text == '""' and before[-1].end == start:
        start = before.pop().start
        end = len(text.rstrip(BLANKS))
    else:
        line_end = text.find("\n", start)
        end = line_end if line_end >= 0 else len(text)
    return Token(ERROR, text[start:end], start, end)
