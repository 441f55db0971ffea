"""How many of the programs in TVM's schedule tests are read, and why the others are not."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mslang.diagnostics import Diagnostic
from mslang.interop import tvmscript

REASONS = (
    ("MS732", "", "say what only running the file gives"),
    ("MS731", "cannot be inferred when", "use a size that nothing gives a value"),
    ("MS731", ".data`", "call external functions with pointers, whose meaning nobody says"),
)
"""Why a program is not read, by the code and a part of the message of the first diagnostic."""


class Programs(msgspec.Struct, frozen=True):
    """The programs of some files: how many there are, how many are read, and why how many are not."""

    there: int
    read: int
    reasons: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """The figures as lines."""
        share = f"{100 * self.read / max(1, self.there):.0f} %"
        lines = [f"functions: {self.read} of {self.there} read ({share})"]
        return "\n".join((*lines, *(f"    {n} {why}" for why, n in self.reasons)))


def programs_of(folder: Path) -> Programs:
    """The programs of the test files in a folder."""
    there = read = 0
    reasons: Counter[str] = Counter()
    for path in sorted(folder.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        found = tvmscript.read(text, str(path))
        functions = list(_functions(ast.parse(text)))
        there += len(functions)
        read += len(found.functions)
        for f in functions:
            start, end = _offsets(text, f)
            faults = [d for d in found.diagnostics if d.span is not None and start <= d.span.start < end]
            if faults:
                reasons[_reason(faults[0])] += 1
    return Programs(there, read, tuple(reasons.most_common()))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("prim_func" in ast.unparse(d) for d in node.decorator_list):
            yield node


def _offsets(text: str, f: ast.FunctionDef) -> tuple[int, int]:
    """Where a function stands in a text of plain characters."""
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: f.lineno - 1])), sum(map(len, lines[: f.end_lineno]))


def _reason(d: Diagnostic) -> str:
    return next((why for code, part, why in REASONS if d.code == code and part in d.message), d.message)
