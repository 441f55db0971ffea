"""`mslang test`: the `test` items of files, and the generated tests of their spaces, schedules and rules."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.cli.common import add_native, counted, emit, natural, note, read_text, source_files
from mslang.cli.items import load_clean
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.render import print_diagnostics, print_error
from mslang.cli.source_files import write_source
from mslang.diagnostics import MsError, problem
from mslang.rendering import Texts

if TYPE_CHECKING:
    from mslang.schedule.testing import Equivalence, TestResult
    from mslang.sema.module import Module


def arguments(parser: argparse.ArgumentParser) -> None:
    """The selection of tests."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="`.ms` files, or folders of them (default: all below this folder)"
    )
    parser.add_argument("-k", dest="wanted", metavar="TEXT", help="only tests whose title contains TEXT")
    parser.add_argument("--update", action="store_true", help="rewrite the snapshots that differ")
    parser.add_argument(
        "--samples",
        type=natural,
        default=3,
        metavar="N",
        help="draws of each generated test of a space, schedule or rule; 0 for none (default 3)",
    )
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="the first seed of the draws")
    add_native(parser)


def run(args: argparse.Namespace) -> int:
    """Run all tests, compiled code in a worker process; exit 1 if one fails."""
    from mslang.tune.isolation import Isolated

    files = [Path(f) for f in source_files(args.files or ["."])]
    with Isolated(args.allow_native) as compare:
        passed, failed, faulty = _run_files(args, files, compare)
    if args.wanted is not None and not passed + failed + faulty:
        raise MsError(problem("MS703", f"no test has '{args.wanted}' in its title"))
    if not args.json:
        print(f"{passed} passed, {failed} failed" + (f", {counted(faulty, 'faulty file')}" if faulty else ""))
    return FINDINGS if failed or faulty else DONE


def _run_files(args: argparse.Namespace, files: list[Path], compare: Equivalence) -> tuple[int, int, int]:
    """The numbers of passed tests, failed tests, and files with errors."""
    passed = failed = faulty = 0
    for path in files:
        try:
            module = load_clean(path)
            module = _rewritten(args, path, module, compare) if args.update else module
        except MsError as error:
            # An error in one file does not keep the tests of others from running.
            print_error(error, args.json)
            faulty += 1
            continue
        for result in _results(args, module, compare):
            _show(args, path, result, module)
            failed, passed = failed + (not result.passed), passed + result.passed
    return passed, failed, faulty


def _rewritten(args: argparse.Namespace, path: Path, module: Module, compare: Equivalence) -> Module:
    """The module after rewriting the failed snapshots of its tests."""
    from mslang.schedule.testing import updated

    text = read_text(path)
    new = updated(text, list(_written_tests(args, module, compare)))
    if new == text:
        return module
    write_source(path, text, new, snapshots=True)
    note(f"rewrote snapshots of {path}")
    return load_clean(path)


def _results(args: argparse.Namespace, module: Module, compare: Equivalence) -> Iterator[TestResult]:
    from mslang.tune.generated import generated_tests

    yield from _written_tests(args, module, compare)
    if args.samples:
        yield from generated_tests(module, args.samples, args.seed, args.wanted, compare)


def _written_tests(args: argparse.Namespace, module: Module, compare: Equivalence) -> Iterator[TestResult]:
    from mslang.schedule.testing import run_test

    for placed in module.tests:
        title = getattr(placed.item, "title").value  # noqa: B009 - every item of `tests` is a test
        if args.wanted is None or args.wanted in title:
            yield run_test(module, placed, compare)


def _show(args: argparse.Namespace, path: Path, result: TestResult, module: Module) -> None:
    if args.json:
        emit(
            {
                "kind": "test",
                "path": str(path),
                "title": result.title,
                "passed": result.passed,
                "checks": result.checks,
                "skipped": result.skipped,
                "failures": [d.message for d in result.diagnostics],
            }
        )
        return
    only_skipped = result.passed and result.skipped and not result.checks
    verdict = "skip  " if only_skipped else "ok    " if result.passed else "FAILED"
    print(f"{verdict} {path}: {result.title}", flush=True)
    for what in result.skipped:
        print(f"       skipped: {what}", flush=True)
    print_diagnostics(result.diagnostics, stream=sys.stdout, texts=Texts({module.path: module.file.text}))
