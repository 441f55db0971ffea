"""What the verbs share: `FILE:NAME`, `--set`, `--pin`, plain tables, JSON lines, times for people."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from mslang.diagnostics import MsError, problem


def split_item(text: str) -> tuple[Path, str | None]:
    """`gemm.ms:matmul` taken apart; the name is None when only a file is given."""
    if Path(text).exists():
        return Path(text), None
    path, colon, name = text.rpartition(":")
    if colon and path and "/" not in name and "\\" not in name:
        return Path(path), name
    return Path(text), None


def read_text(path: Path) -> str:
    """A file's text; MS702 if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MsError(problem("MS702", f"{path} is not UTF-8 text", why=str(error))) from error
    except OSError as error:
        raise MsError(problem(
            "MS702", f"cannot read {path}", why=error.strerror or str(error), help="check the path"
        )) from error


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step, so that a crash leaves the old text or the new; MS702 if it cannot be written."""
    import os
    import tempfile

    path = path.resolve()
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            if path.exists():
                temporary.chmod(path.stat().st_mode)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MsError(problem(
            "MS702", f"cannot write {path}", why=error.strerror or str(error), help="check the rights of file and folder"
        )) from error


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """`--set M=128`, any number of times."""
    parser.add_argument("--set", dest="sizes", metavar="NAME=SIZE", action="append", default=[], type=_size,
                        help="a size of the program, e.g. --set M=128")


def add_pins(parser: argparse.ArgumentParser) -> None:
    """`--pin ti=[8,8,8,8]`, any number of times."""
    parser.add_argument("--pin", dest="pins", metavar="ADDRESS=VALUE", action="append", default=[], type=_pin,
                        help="a decision, e.g. --pin ti=[8,8,8,8]")


def _size(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip().isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=SIZE, a size being a positive integer")
    return name.strip(), int(value)


def _pin(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise argparse.ArgumentTypeError(f"'{text}' is not ADDRESS=VALUE")
    return name.strip().strip('"'), value.strip()


def emit(data: object) -> None:
    """One JSON line on standard output."""
    print(json.dumps(data, default=str), flush=True)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns aligned for reading; numbers to the right."""
    cells = [list(map(str, head)), *(["" if c is None else str(c) for c in row] for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    lines = []
    for number, row in enumerate(cells):
        lines.append("  ".join(_aligned(c, w) for c, w in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            lines.append("  ".join("-" * w for w in widths))
    return "\n".join(lines)


def _aligned(cell: str, width: int) -> str:
    return cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)


def seconds_text(seconds: float) -> str:
    """A time with a fitting unit: `1.52 ms`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def note(text: str) -> None:
    """A remark for the person, on standard error."""
    print(text, file=sys.stderr, flush=True)
