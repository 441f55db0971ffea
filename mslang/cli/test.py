"""`mslang test`: the `test` items of files, and the generated equivalence tests of their spaces, schedules and rules."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.cli.common import emit, note, read_text, write_text
from mslang.cli.items import load_clean
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.render import Texts, print_diagnostics

if TYPE_CHECKING:
    from mslang.schedule.testing import TestResult
    from mslang.sema.module import Module


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which tests."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="`.ms` files (default: all below this folder)")
    parser.add_argument("-k", dest="wanted", metavar="TEXT", help="only tests whose title contains TEXT")
    parser.add_argument("--update", action="store_true", help="rewrite the snapshots that differ")
    parser.add_argument("--samples", type=int, default=3, metavar="N",
                        help="draws of each generated test of a space, schedule or rule; 0 for none (default 3)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed of the draws")


def run(args: argparse.Namespace) -> int:
    """Run them all; exit 1 if one fails."""
    from mslang.schedule.testing import run_test, updated
    from mslang.tune.equivalence import difference
    from mslang.tune.generated import generated_tests

    files = [Path(f) for f in args.files] or sorted(p for p in Path.cwd().rglob("*.ms") if ".mslang" not in p.parts)
    failed = passed = 0
    for path in files:
        module = load_clean(path)
        results: list[TestResult] = []
        for placed in module.tests:
            title = getattr(placed.item, "title").value  # noqa: B009 - every item of `tests` is a test
            if args.wanted is None or args.wanted in title:
                results.append(run_test(module, placed, difference))
                _show(args, path, results[-1], module)
        if args.update:
            text = read_text(path)
            new = updated(text, results)
            if new != text:
                write_text(path, new)
                note(f"rewrote snapshots of {path}")
        for result in generated_tests(module, args.samples, args.seed) if args.samples else ():
            if args.wanted is None or args.wanted in result.title:
                results.append(result)
                _show(args, path, result, module)
        failed += sum(not r.passed for r in results)
        passed += sum(r.passed for r in results)
    if not args.json:
        print(f"{passed} passed, {failed} failed")
    return FINDINGS if failed else DONE


def _show(args: argparse.Namespace, path: Path, result: TestResult, module: Module) -> None:
    if args.json:
        emit({"kind": "test", "path": str(path), "title": result.title, "passed": result.passed, "checks": result.checks,
              "failures": [d.message for d in result.diagnostics]})
        return
    print(f"{'ok    ' if result.passed else 'FAILED'} {path}: {result.title}", flush=True)
    print_diagnostics(result.diagnostics, stream=sys.stdout, texts=Texts({module.path: module.file.text}))
