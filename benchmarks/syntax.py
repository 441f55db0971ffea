"""Lexing, parsing, re-parsing after a keystroke, formatting, and start-up of the command.

python benchmarks/syntax.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from common import WORKLOADS, conditions, percentile, seconds, show, table

from mslang.syntax.format import format_text
from mslang.syntax.lexer import tokenize
from mslang.syntax.parse import parse_file, reparse


def sample(lines: int) -> str:
    """A valid file of about so many lines: the library's workloads, repeated under other names."""
    parts, count, k = [], 0, 0
    texts = [p.read_text() for p in sorted(WORKLOADS.glob("*.ms"))]
    while count < lines:
        text = texts[k % len(texts)]
        if k >= len(texts):
            text = text.replace("schedule ", f"schedule r{k}_").replace("program ", f"program r{k}_")
        parts.append(text)
        count += text.count("\n")
        k += 1
    return "\n".join("\n".join(parts).splitlines()[:lines]) + "\n"


def main() -> None:
    rows = []
    for lines in (200, 1000, 5000):
        text = sample(lines)
        at = text.index("let ", len(text) // 2)
        edits = [text[:at] + f"# {k}\n    " + text[at:] for k in range(30)]
        file = parse_file("a.ms", text)
        keystrokes = iter(edits)
        # Distinct texts each time: a parse of text seen before would be a look-up.
        cold = iter([f"# {k}\n" + text.replace("let ", f"let  {' ' * k}") for k in range(8)])
        rows += [
            (lines, "lex", *figures(seconds(lambda text=text: tokenize(text), 7))),
            (lines, "parse, nothing known", *figures(seconds(lambda cold=cold: parse_file("a.ms", next(cold)), 7))),
            (lines, "parse after a keystroke", *figures(seconds(lambda f=file, k=keystrokes: reparse(f, next(k)), 30))),
            (lines, "format", *figures(seconds(lambda text=text: format_text(text), 5))),
        ]
    print(table(("lines", "what", "median", "p95"), rows))
    print()
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import mslang": [sys.executable, "-c", "import mslang"],
        "mslang --help": [sys.executable, "-m", "mslang", "--help"],
        "mslang check gemm.ms": [sys.executable, "-m", "mslang", "check", str(WORKLOADS / "gemm.ms")],
    }
    print(
        table(
            ("whole process", "median", "p95"),
            [
                (name, *figures(seconds(lambda c=command: subprocess.run(c, capture_output=True, check=True), 11)))
                for name, command in commands.items()
            ],
        )
    )
    print(f"\n{conditions('lark')}")


def figures(times: list[float]) -> tuple[str, str]:
    """Median and 95th percentile."""
    return show(statistics.median(times)), show(percentile(times, 95))


if __name__ == "__main__":
    main()
