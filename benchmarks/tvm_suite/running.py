"""The tests of a checkout, run against the stand-ins: what came of each."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import multiprocessing
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.tvm_suite.comparing import Verdicts
from benchmarks.tvm_suite.reading import NotPortable, tests_of
from benchmarks.tvm_suite.standins import Parameter, StandIns
from mslang.diagnostics import MsError

FOLDER = Path("tests") / "python" / "s_tir" / "schedule"
LIBRARY = Path("python") / "tvm" / "s_tir" / "tensor_intrin"
PREFIX = "test_tir_schedule_"
SECONDS = 120
MEMORY = 4 << 30
"""Bytes of address space that a process may have; the largest tests have arguments of 0.5 GiB."""
INTERNAL = ("analysis", "state", "state_cached_flags", "block_scope", "instruction")
"""Files about TVM's own data structures."""
CHECKS = ("assert_structural_equal", "assert_structural_equal_ignore_global_symbol")


class Finding(msgspec.Struct, frozen=True):
    """What came of a test: `kind` is pair, rejection or other; `outcome` is how it ended."""

    file: str
    test: str
    kind: str
    outcome: str
    why: str = ""


class TooLong(Exception):
    """A test takes too long."""


def findings(checkout: Path, wanted: str = "", processes: int = 1) -> Iterator[Finding]:
    """Every test whose file and name hold `wanted`, run; files beside each other in several processes."""
    paths = sorted((checkout / FOLDER).glob("test_*.py"))
    chosen = [(path, wanted) for path in paths if any(wanted in n for n in names_of(path))]
    with multiprocessing.get_context("spawn").Pool(processes, bound_memory, maxtasksperchild=1) as pool:
        for found in pool.imap(of_file, chosen, chunksize=1):
            yield from found


def bound_memory() -> None:
    """Bound this process's memory: a test that needs more fails by itself."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most), most))


def names_of(path: Path) -> Iterator[str]:
    """`file::test` of each test function in a file."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield f"{_file(path)}::{node.name}"


def _file(path: Path) -> str:
    return path.stem.removeprefix(PREFIX)


def of_file(chosen: tuple[Path, str]) -> list[Finding]:
    """What came of the tests of one file."""
    path, wanted = chosen
    stand_ins = StandIns(Verdicts(), path.parents[len(FOLDER.parts)] / LIBRARY)
    found: list[Finding] = []
    for name, test in tests_of(path, stand_ins.named, stand_ins.intrinsics.readable).items():
        if wanted in f"{_file(path)}::{name}":
            stand_ins.verdicts = Verdicts()
            found.append(run_test(_file(path), name, test, stand_ins.verdicts))
    return found


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
        outcome, why = "too long", f"more than {SECONDS} s"
    except MemoryError:
        outcome, why = "too large", f"more than {MEMORY >> 30} GiB"
    except (AssertionError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        outcome, why = "failed", f"{type(error).__name__}: {error}"
    kind = _kind(file, test, verdicts)
    return Finding(file, name, kind, *_outcome(kind, outcome, why, verdicts))


def _outcome(kind: str, ended: str, why: str, verdicts: Verdicts) -> tuple[str, str]:
    """How a test ended for the count: what it could not do after its claims does not matter."""
    claims = verdicts.refusals if kind == "rejection" else verdicts.compared
    if verdicts.different:
        return "different", "; ".join(verdicts.why)
    if verdicts.accepted and ended != "not portable":
        return "accepted", "; ".join(verdicts.why) or "what TVM refuses; it was not compared"
    if ended in ("refused", "too long", "too large") or (ended and not claims):
        return ended, why
    if kind == "rejection":
        return ("refused as expected", "") if claims else ("failed", "nothing was to be refused")
    if not claims:
        return "ran", ""
    return ("same meaning" if verdicts.same_meaning else "same form"), ""


def _kind(file: str, test: Callable[..., None], verdicts: Verdicts) -> str:
    names = (*test.__code__.co_names, *test.__code__.co_freevars)
    if file in INTERNAL:
        return "other"
    if "raises" in names:
        return "rejection"
    return "pair" if verdicts.compared or any(n in CHECKS or n.startswith("check_") for n in names) else "other"


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
