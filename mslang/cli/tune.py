"""`mslang tune`: search for the fastest schedule."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.cli.common import add_sizes, emit, note, split_item, write_text
from mslang.cli.items import load_clean, own_sizes, unknown_item
from mslang.cli.main import DONE, FINDINGS, INTERRUPTED
from mslang.diagnostics import MsError, problem
from mslang.tune.budget import Budget, parse_seconds

if TYPE_CHECKING:
    from mslang.sema.module import Module
    from mslang.target.description import Target
    from mslang.tune.progress import Finished
    from mslang.tune.search import Task


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to tune, and for how long."""
    parser.add_argument("files", nargs="+", metavar="FILE[:NAME]",
                        help="files to tune every program of, or a program, space or schedule of a file")
    parser.add_argument("--target", metavar="T", help="the machine to tune for (default: this one)")
    parser.add_argument("--trials", type=_positive, default=64, metavar="N", help="candidates to try (default 64)")
    parser.add_argument("--budget", type=_seconds, metavar="TIME", help="wall time, e.g. 60s, 5m, 1h")
    parser.add_argument("--patience", type=_positive, metavar="N", help="stop after N trials without a better one")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed draws the same candidates")
    parser.add_argument("--workers", type=_positive, metavar="N", help="processes that compile")
    parser.add_argument("--db", type=Path, metavar="FILE", help="the record store (default: .mslang/records.db beside the file)")
    parser.add_argument("--resume", action="store_true", help="go on with the last run of this program and space")
    parser.add_argument("--write", action="store_true", help="put the best schedule found back into the file")
    parser.add_argument("--strict", action="store_true", help="exit 1 if any candidate was wrong, crashed or hung")
    add_sizes(parser)


def run(args: argparse.Namespace) -> int:
    """Tune each program in turn."""
    from mslang.sema.natives import NATIVES  # noqa: F401  (placed by the integration below)

    return DONE


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def _seconds(text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no time: 90, 60s, 5m, 1h") from None
