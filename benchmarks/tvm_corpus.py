"""All functions of TVM's own tests: the number that can be read, and the reasons for the refusal of the others.

python benchmarks/tvm_corpus.py PATH/TO/tvm [--update] [-v]

The functions of every Python file under `tests/python` of the checkout are read as TVMScript; TVM is not needed.
`--update` writes the counts into `docs/tvm.md`.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from pathlib import Path

import msgspec
from common import ROOT, table

from mslang.diagnostics import Diagnostic
from mslang.interop import tvmscript

TILES = re.compile(
    r"\bTx\.|device_entry|\bTileLayout|\bTLane|T\.(?:kernel|cta|warp|thread|warpgroup)\("
    r"|\bT\.cuda\.|\bT\.ptx\.|\btile\.|\bT\.(?:cta|warp|lane|thread|warpgroup)_id\(|[\"']trn\.(?:sbuf|psum)[\"']"
)
"""Words and memories of the tile dialect, another language with the same syntax."""
BEGIN, END = "<!-- corpus: begin -->", "<!-- corpus: end -->"
CLASSES = (
    ("depends on values known only when the file runs", r"MS732"),
    (
        "calls an external function, or an instruction of unknown meaning",
        r"has no counterpart|is no function|unknown meaning|other library|pointer",
    ),
    ("vectors in expressions", r"vector|lanes|[Rr]amp|[Bb]roadcast"),
    ("an element type that mslang lacks", r"element type|no type|float8|float4|int4|MS734"),
    ("an undefined size or scalar", r"cannot be inferred|nothing gives|size"),
    ("not a well-formed program", r"MS1\d\d|MS4\d\d"),
)
"""The classes of reasons for refusals; the first match counts."""


class Counts(msgspec.Struct):
    """Functions, those read, and the reasons for the refusal of the others."""

    all: int = 0
    read: int = 0
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    examples: dict[str, str] = msgspec.field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    text = functions(options.checkout, options.verbose)
    print(text)
    if options.update:
        page = ROOT / "docs" / "tvm.md"
        whole = page.read_text()
        page.write_text(f"{whole[: whole.index(BEGIN)]}{BEGIN}\n{text}\n{whole[whole.index(END) :]}")


# ------------------------------------------------------------------ functions
def functions(checkout: Path, verbose: bool) -> str:
    counts = {"outside of the tile dialect": Counts(), "tile dialect": Counts()}
    for file in sorted((checkout / "tests" / "python").rglob("*.py")):
        count_file(file, file.read_text(errors="replace"), counts)
    if verbose:
        for where, c in counts.items():
            for reason, n in c.reasons.most_common():
                print(f"{where}: {n} {reason}: {c.examples[reason]}")
    head = ("functions", "all", "read", "share")
    rows = [(where, c.all, c.read, f"{c.read / max(c.all, 1):.1%}") for where, c in counts.items()]
    outside = counts["outside of the tile dialect"].reasons
    reasons = table(("reason for the others outside of it", "functions"), outside.most_common())
    return f"{table(head, rows)}\n\n{reasons}"


def count_file(file: Path, text: str, counts: dict[str, Counts]) -> None:
    """Count the functions of a file."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    marked = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and _is_program(f)]
    if not marked:
        return
    found = tvmscript.read(text, str(file))
    spans = _lines(text)
    for f in marked:
        source = ast.get_source_segment(text, f) or ""
        where = counts["tile dialect" if TILES.search(source) else "outside of the tile dialect"]
        where.all += 1
        bad = [d for d in found.diagnostics if _stands_in(d, f, spans)]
        if not bad:
            where.read += 1
            continue
        reason = reason_of(bad[0])
        where.reasons[reason] += 1
        where.examples.setdefault(reason, f"{file.name}:{f.lineno} {bad[0].code} {bad[0].message} {bad[0].why or ''}")


def reason_of(d: Diagnostic) -> str:
    """The class of a refusal."""
    text = f"{d.code} {d.message} {d.why or ''}"
    return next((name for name, pattern in CLASSES if re.search(pattern, text)), "other")


def _is_program(f: ast.FunctionDef) -> bool:
    return any("prim_func" in ast.unparse(d) for d in f.decorator_list)


def _lines(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _stands_in(d: Diagnostic, f: ast.FunctionDef, starts: list[int]) -> bool:
    first = min([f.lineno, *(x.lineno for x in f.decorator_list)])
    return d.span is not None and starts[first - 1] <= d.span.start < starts[f.end_lineno or f.lineno]


if __name__ == "__main__":
    main()
