"""Positions in a Python text, and refusals located there."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from mslang.diagnostics import Diagnostic, MsError, Span, problem

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
"""Lines as Python counts them."""


def parsed(text: str) -> ast.Module:
    """A text as Python's tree. Python's warnings about it are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def parsed_expression(text: str) -> ast.expr:
    """An expression as Python's tree, as `parsed`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, mode="eval").body


class Source:
    """A Python text with its lines, which Python counts in bytes."""

    def __init__(self, text: str, path: str | None = None) -> None:
        self.text = text
        self.path = path
        self._lines = _LINES.findall(text)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """The offset in characters of a line (from 1) and a column in bytes (from 0)."""
        if line > len(self._lines):
            return len(self.text)
        text = self._lines[line - 1]
        return self._starts[line - 1] + (
            column if text.isascii() else len(text.encode()[:column].decode(errors="ignore"))
        )

    def span(self, node: ast.AST) -> Span | None:
        """The span of a node."""
        if not isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword | ast.ExceptHandler):
            return None
        start = self.offset(node.lineno, node.col_offset)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.For | ast.While | ast.With | ast.If):
            # Underlining a whole body is not helpful.
            return Span(start, self._starts[node.lineno - 1] + len(self._lines[node.lineno - 1].rstrip()))
        return Span(start, self.offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset))

    def placed(self, refusal: Refusal) -> Diagnostic:
        """The diagnostic of a refusal, pointing into this text."""
        (d,) = refusal.diagnostics
        return Diagnostic(d.code, d.message, self.span(refusal.node), why=d.why, help=d.help, path=self.path)


class Refusal(MsError):
    """An unsupported construct at `node`."""

    def __init__(self, node: ast.AST, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.node = node


def refuse(code: str, node: ast.AST, message: str, why: str | None = None, help: str | None = None) -> Refusal:
    """The refusal of the construct at `node`."""
    return Refusal(node, problem(code, message, why=why, help=help))


@contextmanager
def refusing(node: ast.AST) -> Iterator[None]:
    """Refusals inside the context are located at `node`."""
    try:
        yield
    except Refusal:
        raise
    except MsError as error:
        raise Refusal(node, error.diagnostic) from None


def text_of(node: ast.AST) -> str:
    """A node as Python source for messages; long ones are truncated."""
    text = ast.unparse(node).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "…"
