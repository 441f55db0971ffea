"""The messages of syntax errors, with stable codes."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from mslang.diagnostics import Diagnostic, Fix, Note, Span, problem
from mslang.suggestions import listed, nearest
from mslang.syntax.lexer import DANGLING_DOT, ERROR, STRAY_OPENER, Token
from mslang.syntax.tables import END, load_tables

CLOSER = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
CLOSERS = frozenset(CLOSER.values())

# Groups of kinds of token: if the first is expected, the others are not listed.
_WORDS = {"NAME": "a name", "STRING": "a string", "NUMBER": "a number", END: "the end"}
_EXPRESSION = frozenset(
    {"NUMBER", "STRING", "SIZE", "TRUE", "FALSE", "HOLE", "LSQB", "LPAR", "NOT", "SUM", "FN", "NAME", ERROR}
)
_CONTINUES = frozenset(
    {"SUM", "STAR", "MUL", "CMP", "AND", "OR", "DOTDOT", "DOT", "LPAR", "LSQB", "THEN", "VBAR", "ASSIGN", "WITH"}
)
_AT_MOST = 5
_ITEMS = ("use", "const", "target", "program", "schedule", "rule", "fn", "space", "intrin", "test")


def span_of(token: Token) -> Span:
    """The span of a token."""
    return Span(token.start, token.end)


def kind_text(kind: str) -> str:
    """The name of a kind of token in messages."""
    literal = load_tables().lexer.literals.get(kind)
    return f"`{literal}`" if literal else _WORDS.get(kind, kind.lower())


def found_text(token: Token) -> str:
    """The description of an unexpected token."""
    if token.kind == END:
        return "the end of the item"
    if len(token.text) > 40 or "\n" in token.text:
        return "this " + {"STRING": "string"}.get(token.kind, "text")
    return f"`{token.text}`"


def expected_text(kinds: frozenset[str]) -> str | None:
    """ "a, b or c" for the expected kinds of token; None if there are too many."""
    rest = set(kinds)
    words: list[str] = []
    if "LET" in rest:
        words.append("a statement")
        rest &= {"RBRACE"}
    elif {"NUMBER", "NOT", ERROR} <= rest:
        words.append("an expression")
        rest -= _EXPRESSION
    elif {"USE", "PROGRAM", "TEST"} <= rest:
        words.append("an item (`program`, `schedule`, `test`, …)")
        rest = set()
    rest -= {ERROR}
    if "SUM" in rest or "DOT" in rest:
        rest -= _CONTINUES
    words += sorted(kind_text(kind) for kind in rest)
    if not words or len(words) > _AT_MOST:
        return None
    return listed(words, "or")


def unexpected(token: Token, expected: frozenset[str], before: Token | None) -> Diagnostic:
    """An unexpected token."""
    wanted = expected_text(expected)
    if token.kind == END:
        more = "" if wanted is None else f"; expected {wanted}"
        return problem("MS001", f"unexpected end of the item{more}", span=_place(token, before))
    if wanted is None:
        return problem("MS001", f"unexpected {found_text(token)}", span=_place(token, before))
    sized = token.kind == "LSQB" and {"EQUAL", "LBRACE", "ON"} <= expected
    help = "sizes are given where it is run: `--set M=64`; or write a program of those sizes" if sized else None
    return problem("MS001", f"expected {wanted}, found {found_text(token)}", span=_place(token, before), help=help)


def incomplete(tokens: Sequence[Token]) -> Diagnostic:
    """A statement that ends too early."""
    return problem("MS001", "this statement is not complete", span=Span(tokens[0].start, tokens[-1].end))


def _place(token: Token, before: Token | None) -> Span:
    """The span of a token, or at the end that of the text before it."""
    return span_of(before) if token.kind == END and before is not None else span_of(token)


def never_closed(openers: Sequence[Token], at: Token, fix_at: int) -> Diagnostic:
    """Unclosed brackets, innermost first, detected at a token."""
    inner, *outer = openers
    closers = "".join(load_tables().lexer.literals[CLOSER[o.kind]] for o in openers)
    notes = [Note(f"neither is this `{o.text}`", span_of(o)) for o in outer[:2]]
    if at.kind != END:
        notes.insert(0, Note(f"noticed at {found_text(at)}", span_of(at)))
    return problem(
        "MS002",
        f"`{inner.text}` is never closed",
        span=span_of(inner),
        notes=tuple(notes),
        fixes=(Fix(f"insert `{closers}`", Span(fix_at, fix_at), closers),),
    )


def closes_nothing(token: Token) -> Diagnostic:
    """An unmatched closing bracket."""
    return problem(
        "MS003",
        f"`{token.text}` closes nothing",
        span=span_of(token),
        fixes=(Fix(f"remove `{token.text}`", span_of(token), ""),),
    )


def closes_another(token: Token, opener: Token, right: str) -> Diagnostic:
    """`(` closed by `]`."""
    return problem(
        "MS003",
        f"`{token.text}` does not close `{opener.text}`",
        span=span_of(token),
        notes=(Note(f"this `{opener.text}` is still open", span_of(opener)),),
        fixes=(Fix(f"write `{right}`", span_of(token), right),),
    )


def missing(text: str, token: Token, before: Token | None) -> Diagnostic:
    """A missing token before a token."""
    end = before.end if before is not None else token.start
    return problem(
        "MS004",
        f"expected `{text}` before {found_text(token)}",
        span=_place(token, before),
        fixes=(Fix(f"insert `{text}`", Span(end, end), text if text == "," else f" {text}"),),
    )


def missing_expression(token: Token, before: Token | None, same_line: bool) -> Diagnostic:
    """A missing expression."""
    if before is None or (same_line and token.kind != END):
        return problem("MS005", f"expected an expression, found {found_text(token)}", span=span_of(token))
    return problem("MS005", f"expected an expression after {found_text(before)}", span=span_of(before))


def keyword_as_name(token: Token) -> Diagnostic:
    """A keyword in the place of a name."""
    return problem(
        "MS008",
        f"`{token.text}` is a keyword and cannot be a name",
        span=span_of(token),
        help="choose another name, or write it in backticks",
        fixes=(Fix("put it in backticks", span_of(token), f"`{token.text}`"),),
    )


def instead(text: str, token: Token) -> Diagnostic:
    """A token that should be another one."""
    return problem(
        "MS001",
        f"expected `{text}`, found {found_text(token)}",
        span=span_of(token),
        fixes=(Fix(f"write `{text}`", span_of(token), text),),
    )


def bad_text(token: Token) -> Diagnostic:
    """Characters that form no token."""
    if token.text[0].isdigit():
        return problem(
            "MS006",
            f"`{token.text}` is not a number",
            span=span_of(token),
            help="numbers look like 12, 1_000, 0xff, 1.5, 1e-4 or 64KiB",
        )
    if token.text.startswith('"'):
        return problem("MS006", "this string is never closed", span=Span(token.start, token.start + 1))
    what = "this character" if len(token.text) == 1 else "this text"
    shown = found_text(token) if token.text.isprintable() else " ".join(f"U+{ord(c):04X}" for c in token.text[:8])
    return problem("MS006", f"{what} is not part of the language: {shown}", span=span_of(token))


def bad_layout(token: Token) -> Diagnostic:
    """A token that violates one of the two layout rules."""
    if token.kind == DANGLING_DOT:
        return problem("MS007", "expected a name after `.` on the same line", span=span_of(token))
    return problem(
        "MS007",
        f"`{token.text}` must be on the line of the expression that it follows",
        span=span_of(token),
        why="otherwise a line could swallow the one after it",
    )


def outside(token: Token) -> Diagnostic:
    """Text outside of items."""
    elsewhere = _ELSEWHERE.get(token.text)
    meant = nearest(token.text, _ITEMS) if elsewhere is None else None
    help = elsewhere or f"items begin with {listed([f'`{word}`' for word in _ITEMS], 'or')}"
    return problem(
        "MS009",
        f"expected an item, found {found_text(token)}",
        span=span_of(token),
        help=help if meant is None else f"did you mean `{meant}`?",
        fixes=() if meant is None else (Fix(f"change to `{meant}`", span_of(token), meant),),
    )


_PROGRAM = "a computation is a program: `program name[N = 64](A: f32[N], out B: f32[N]) { … }`"
_USE = "names of other files and of the library come in by `use`: `use std.cpu.{host}`"
_COMMENT = "comments begin with `#`"
_ELSEWHERE = MappingProxyType(
    dict.fromkeys(("def", "func", "function", "kernel", "void", "class", "module", "let"), _PROGRAM)
    | dict.fromkeys(("import", "from", "include", "using"), _USE)
    | dict.fromkeys(("//", "/*", "/", "--", "%"), _COMMENT)
)
"""How files of other languages begin, and what is written here instead."""

LAYOUT = frozenset({DANGLING_DOT, STRAY_OPENER})
REAL_KIND = {"(": "LPAR", "[": "LSQB", ".": "DOT"}
