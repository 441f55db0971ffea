"""How many of the schedule tests in a checkout of TVM this project reproduces.

    python -m benchmarks.tvm_suite PATH/TO/tvm [-k NAME] [-v]

A *pair* is a test that compares the program after some primitives with one that is written out; it is reproduced if
every such comparison finds the same form, or the same results on the same arguments. A *rejection* is a test in which
something must be refused; it is reproduced if each is. Tests that ask for TVM's own objects are counted apart.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.tvm_suite.comparing import Verdicts
from benchmarks.tvm_suite.reading import NotPortable, tests_of
from benchmarks.tvm_suite.standins import Parameter, StandIns
from mslang.diagnostics import MsError

FOLDER = Path("tests") / "python" / "s_tir" / "schedule"
SECONDS = 15


class Finding(msgspec.Struct, frozen=True):
    """What came of a test: `kind` is pair, rejection or other; `outcome` is how it ended."""

    file: str
    test: str
    kind: str
    outcome: str
    why: str = ""


class TooLong(Exception):
    """A test takes too long."""


def run_test(file: str, name: str, test: Callable[..., None], verdicts: Verdicts) -> Finding:
    """Run one test against the stand-ins."""
    why, outcome = "", ""
    try:
        with limited(), contextlib.redirect_stdout(io.StringIO()):
            test(**arguments(test))
    except NotPortable as reason:
        outcome, why = "not portable", str(reason)
    except MsError as error:
        outcome, why = "refused", f"{error.diagnostic.code} {error.diagnostic.message}: {error.diagnostic.why or ''}"
    except TooLong:
        outcome, why = "not portable", "too long"
    except (AssertionError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        outcome, why = "failed", f"{type(error).__name__}: {error}"
    compared = verdicts.same_form + verdicts.same_meaning + verdicts.different
    kind = _kind(file, test, compared)
    if outcome == "not portable" and compared:
        outcome = ""
    if outcome == "failed" and verdicts.refusals:
        outcome = ""
    if verdicts.different:
        outcome, why = "different", "; ".join(verdicts.why)
    elif verdicts.accepted:
        outcome, why = "accepted", "what TVM refuses"
    elif not outcome:
        outcome = "same form" if verdicts.same_form and not verdicts.same_meaning else "same meaning"
        outcome = "refused as expected" if kind == "rejection" else outcome if compared else "ran"
    return Finding(file, name, kind, outcome, why)


def _kind(file: str, test: Callable[..., None], compared: int) -> str:
    names = (*test.__code__.co_names, *test.__code__.co_freevars)
    if file in INTERNAL:
        return "other"
    if "raises" in names:
        return "rejection"
    checks = ("assert_structural_equal", "assert_structural_equal_ignore_global_symbol")
    return "pair" if compared or any(n in checks or n.startswith("check_") for n in names) else "other"


def arguments(test: Callable[..., None]) -> dict[str, Any]:
    """The first value of each parameter of a test."""
    given = dict(getattr(test, "given", {}))
    for name in inspect.signature(test).parameters:
        known = test.__globals__.get(name)
        if name not in given and isinstance(known, Parameter):
            given[name] = known.values[0]
    return given


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Stop what takes too long."""

    def stop(*given: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def findings(checkout: Path, wanted: str = "") -> Iterator[Finding]:
    """Every test of every file, run."""
    for path in sorted((checkout / FOLDER).glob("test_*.py")):
        stand_ins = StandIns(Verdicts())
        for name, test in tests_of(path, stand_ins.named).items():
            if wanted in f"{path.stem}::{name}":
                stand_ins.verdicts = Verdicts()
                yield run_test(path.stem.removeprefix("test_tir_schedule_"), name, test, stand_ins.verdicts)


INTERNAL = ("analysis", "state", "state_cached_flags", "block_scope")
"""Files about TVM's own data structures."""
GOOD = ("same form", "same meaning", "refused as expected")


def main() -> int:
    """Print the counts; the exit status says whether there was anything to run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("-k", default="", help="only tests whose name has this in it")
    parser.add_argument("-v", action="store_true", help="show what is not reproduced")
    options = parser.parse_args()
    found = list(findings(options.checkout, options.k))
    for f in found:
        if options.v and f.kind != "other" and f.outcome not in GOOD:
            print(f"{f.file}::{f.test}: {f.kind} {f.outcome}: {f.why}"[:400])
    for kind in ("pair", "rejection"):
        of_kind = [f for f in found if f.kind == kind]
        good = sum(f.outcome in GOOD for f in of_kind)
        share = 100 * good / max(1, len(of_kind))
        counted = ", ".join(f"{n} {what}" for what, n in Counter(f.outcome for f in of_kind).most_common())
        print(f"{kind}s: {good} of {len(of_kind)} reproduced ({share:.0f} %): {counted}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
