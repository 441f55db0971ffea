"""Syntax of other languages: what to write instead.

Only text that does not parse is examined: on the line of a syntax error, the message for a known habit replaces all
errors of that line.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise

from mslang.diagnostics import Diagnostic, Fix, Span, problem
from mslang.syntax.lexer import Token

Line = Sequence[Token]
"""The tokens of one line without comments and spaces."""


def in_words_of_this_language(
    text: str, tokens: Sequence[Token], diagnostics: Sequence[Diagnostic]
) -> tuple[Diagnostic, ...]:
    """The syntax errors of an item; an error from a known habit is replaced by what to write instead."""
    starts = [t.start for t in tokens]
    found: list[Diagnostic] = []
    known: set[int] = set()
    for d in diagnostics:
        at = d.span.start if d.span is not None else 0
        start = text.rfind("\n", 0, at) + 1
        if start in known:
            continue
        end = text.find("\n", at)
        line = tokens[bisect_left(starts, start) : bisect_left(starts, end if end >= 0 else len(text))]
        better = next((b for habit in _HABITS if (b := habit(line)) is not None), None)
        if better is not None:
            known.add(start)
        found.append(better or d)
    return tuple(found)


def _said(message: str, first: Token, last: Token, help: str, fix: str | None = None) -> Diagnostic:
    span = Span(first.start, last.end)
    title = "remove it" if fix == "" else f"write `{fix}`"
    fixes = () if fix is None else (Fix(title, span, fix),)
    return problem("MS010", message, span=span, help=help, fixes=fixes)


def _pair(line: Line, text: str) -> tuple[Token, Token] | None:
    """The token, or two adjacent tokens, with the text `text`."""
    for k, token in enumerate(line):
        if token.text == text:
            return token, token
        after = line[k + 1] if k + 1 < len(line) else None
        if after is not None and after.start == token.end and token.text + after.text == text:
            return token, after
    return None


def _one(line: Line, text: str) -> Token | None:
    return next((t for t in line if t.text == text), None)


def _comment(line: Line) -> Diagnostic | None:
    if line and line[0].text in ("//", "/*"):
        return _said("comments do not begin with `//`", line[0], line[0], "write `# …`", "#")
    return None


def _range(line: Line) -> Diagnostic | None:
    for k, token in enumerate(line[:-1]):
        if token.text == "range" and line[k + 1].text == "(" and any(t.text == "for" for t in line[:k]):
            last = next((t for t in line[k:] if t.text == ")"), line[-1])
            inside = "".join(t.text for t in line[k + 2 :] if t.end < last.end)
            bounds = inside.split(",")
            domain = inside if len(bounds) == 1 else f"{bounds[0]} .. {bounds[1]}"
            name = next((a.text for a, b in pairwise(line) if b.text == "in"), "i")
            help = f"write `for {name} in {domain} {{ … }}`; in a schedule `for {name} in 0 .. {domain} {{ … }}`"
            return _said("a loop does not run over `range(…)`", token, last, help)
    return None


def _colon_body(line: Line) -> Diagnostic | None:
    heads = ("for", "if", "else", "while", "schedule", "program", "fn")
    if line and line[-1].text == ":" and any(t.text in heads for t in line):
        return _said("a body does not begin with `:`", line[-1], line[-1], "write it in braces: `{ … }`")
    return None


def _c_ternary(line: Line) -> Diagnostic | None:
    mark = _one(line, "?")
    help = "use `select(condition, then, otherwise)`"
    return None if mark is None else _said("there is no operator `? :`", mark, mark, help)


def _python_ternary(line: Line) -> Diagnostic | None:
    start = next((k for k, t in enumerate(line) if t.text == "if" and k), None)
    end = next((k for k, t in enumerate(line) if t.text == "else"), None)
    if start is None or end is None or end < start or any(t.text in "{}" for t in line[start:end]):
        return None
    help = "use `select(condition, then, otherwise)`"
    return _said("there is no expression `x if c else y`", line[start], line[end], help)


def _sign(text: str, word: str) -> Callable[[Line], Diagnostic | None]:
    def habit(line: Line) -> Diagnostic | None:
        pair = _pair(line, text)
        return None if pair is None else _said(f"there is no operator `{text}`", *pair, f"write `{word}`", word)

    return habit


def _not(line: Line) -> Diagnostic | None:
    mark = _one(line, "!")
    return None if mark is None else _said("there is no operator `!`", mark, mark, "write `not`", "not ")


def _power(line: Line) -> Diagnostic | None:
    pair = _pair(line, "**")
    help = "write `x * x`, or `pow(x, y)` of floats"
    return None if pair is None else _said("there is no operator `**`", *pair, help)


def _step(line: Line) -> Diagnostic | None:
    pair = _pair(line, "++") or _pair(line, "--")
    return None if pair is None else _said(f"there is no operator `{pair[0].text * 2}`", *pair, "write `… += 1`")


def _semicolon(line: Line) -> Diagnostic | None:
    mark = _one(line, ";")
    help = "leave it out: a statement ends where the next one begins"
    return None if mark is None else _said("statements do not end with `;`", mark, mark, help, "")


def _typed_first(line: Line) -> Diagnostic | None:
    for first, second in pairwise(line):
        if first.text in _TYPES and second.kind == "NAME" and second.text not in _TYPES:
            help = f"write `{second.text}: {first.text}[…]`"
            return _said("the type of a parameter follows its name", first, second, help)
    return None


def _no_let(line: Line) -> Diagnostic | None:
    """`i0, i1 = mm.i.split([_, 4])`."""
    names = 1
    while names + 1 < len(line) and line[names].text == "," and line[names + 1].kind == "NAME":
        names += 2
    if names < 3 or line[0].kind != "NAME" or names >= len(line) or line[names].text not in ("=", "~"):
        return None
    span, at = Span(line[0].start, line[names - 1].end), Span(line[0].start, line[0].start)
    fix = Fix("insert `let`", at, "let ")
    return problem("MS010", "these names are not declared", span=span, help="write `let … = …`", fixes=(fix,))


def _schedule_of(line: Line) -> Diagnostic | None:
    if len(line) > 2 and line[0].text in ("schedule", "space") and line[2].text == "of":
        return _said("a program is named after `for`, not `of`", line[2], line[2], "write `for`", "for")
    return None


def _size_with_colon(line: Line) -> Diagnostic | None:
    """`program p[N: 8]`."""
    if len(line) < 4 or line[0].text != "program" or line[2].text != "[":
        return None
    for k, token in enumerate(line[3:-1], 3):
        if token.text == "]":
            return None
        if token.text == ":" and line[k + 1].kind == "NUMBER":
            name, number = line[k - 1], line[k + 1]
            right = f"{name.text} = {number.text}"
            return _said("the default of a size follows `=`", name, number, f"write `{right}`", right)
    return None


def _brackets_twice(line: Line) -> Diagnostic | None:
    """`A: f32[N][N]`."""
    for k, token in enumerate(line[:-1]):
        typed = k > 1 and token.text == "[" and line[k - 1].text in _TYPES and line[k - 2].text == ":"
        if not typed:
            continue
        end = next((e for e in range(k, len(line) - 1) if line[e].text == "]" and line[e + 1].text == "["), None)
        closed = end is not None and any(t.text == "]" for t in line[end + 2 :])
        if end is not None and closed and all(t.text not in "(){}:" for t in line[k:end]):
            return _said(
                "all dimensions stand in one pair of brackets", line[end], line[end + 1], "write `[M, N]`", ", "
            )
    return None


def _slice(line: Line) -> Diagnostic | None:
    """`A[i, :]`."""
    for before, colon, after in zip(line, line[1:], line[2:], strict=False):
        if colon.text == ":" and before.text in ("[", ",") and after.text in ("]", ","):
            help = "name an axis: `block b[i: M | k: K] { B[i] += A[i, k] }` sums over `k`"
            return _said("there are no slices", colon, colon, help)
    return None


_TYPES = frozenset(
    ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "int", "float")
)

_HABITS: tuple[Callable[[Line], Diagnostic | None], ...] = (
    _comment,
    _range,
    _c_ternary,
    _python_ternary,
    _sign("&&", "and"),
    _sign("||", "or"),
    _power,
    _step,
    _not,
    _typed_first,
    _size_with_colon,
    _brackets_twice,
    _slice,
    _schedule_of,
    _no_let,
    _colon_body,
    _semicolon,
)
