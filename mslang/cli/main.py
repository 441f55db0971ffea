"""The `mslang` command: finds the verb, runs it, and maps every outcome to an exit status.

0 success; 1 findings, failed tests, or no valid candidate; 2 wrong use; 3 the target or a needed component is
not available; 4 an internal error; 130 interrupted.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import os
import re
import sys
import time
from keyword import iskeyword
from pathlib import Path
from typing import Any, NoReturn, Protocol, TextIO, cast

from mslang import __version__
from mslang.cli.common import WRONG_USE
from mslang.diagnostics import MsError, TargetError, bounded_depth, problem
from mslang.extensions import allowing

DONE, FINDINGS, USAGE, UNAVAILABLE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 130

VERBS = {
    "check": "all diagnostics of files",
    "fmt": "the one layout",
    "expand": "a program in its long form",
    "show": "the program or trace after a schedule, or after each step",
    "run": "compile, verify against the reference, time",
    "compare": "time several schedules, records or libraries in turn",
    "build": "a library for C: header, object, shared library, assembly",
    "apply": "a file with the best schedules known for its programs",
    "test": "the tests of files, and generated equivalence tests",
    "tune": "search for the fastest schedule",
    "report": "what tuning found, as one HTML page",
    "explain": "the long explanation of a code or a primitive",
    "env": "machine, target guessed, back ends and their state",
    "db": "the record store",
    "import": "programs of other tools as `.ms` text",
    "lsp": "the language server, on standard input and output",
}
"""The verbs and one line on each; `mslang/cli/<verb>.py` implements the verb and is imported only when it is used
(`import_.py`, because `import` is a keyword of Python)."""


COMPONENTS = frozenset({"jinja2", "lark", "llvmlite", "msgspec", "numpy", "rich"})
"""Packages that verbs need."""


class Verb(Protocol):
    """The interface of a verb's module."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the verb; returns the exit status."""


_UNKNOWN_VERB = re.compile(r"argument VERB: invalid choice: '([^']*)'")
"""What argparse says of a verb that there is not."""


class Parser(argparse.ArgumentParser):
    """argparse, with wrong use reported as a diagnostic."""

    def __init__(self, **options: Any) -> None:
        # An option that permits something (`--allow-native`) is never meant by a part of its name.
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise the error: MS701.

        Raises:
            MsError: always.
        """
        help = f"{self.prog} --help"
        verb = _UNKNOWN_VERB.match(message)
        if verb is not None:
            from mslang.suggestions import did_you_mean

            message = f"unknown verb `{verb[1]}`"
            help = did_you_mean(verb[1], VERBS) or help
        raise MsError(problem(WRONG_USE, message, help=help))


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's); returns the exit status."""
    started = time.monotonic()
    words = sys.argv[1:] if argv is None else argv
    if argv is None:
        # Programs are trees that live long and have no cycles: to search them for garbage after each 700 new objects,
        # as Python does, takes a tenth of the time.
        gc.set_threshold(100_000, 10, 10)
    _replace_closed_streams()
    _escape_foreign_characters()
    try:
        status = _main(words, started)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe (`mslang show … | head`): there is no one to report to.
        _discard_output()
        return DONE
    except OSError as error:
        _discard_output(sys.stdout)
        return _report(MsError(problem("MS702", "cannot continue", why=error.strerror or str(error))), as_json=False)
    return status


def _replace_closed_streams() -> None:
    """Discard output to streams that were closed at the start (`2>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - open for the life of the process


def _escape_foreign_characters() -> None:
    """Print characters that the output's encoding lacks as `\\u2026`, as standard error does by itself."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_output(*streams: TextIO) -> None:
    """Avoid a second error when Python flushes its streams at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams or (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def _main(words: list[str], started: float) -> int:
    verb = next((w for w in words if not w.startswith("-")), None)
    parser = Parser(prog="mslang", description="A language, a tuner and an editor for making tensor programs fast.")
    parser.add_argument("--version", action="version", version=f"mslang {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    module: Verb | None = None
    for name, summary in VERBS.items():
        sub = verbs.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == verb:
            module = cast("Verb", importlib.import_module(f"mslang.cli.{name}{'_' * iskeyword(name)}"))
            module.arguments(sub)
            sub.add_argument("--json", action="store_true", help="JSON lines on standard output")
            add_extension(sub, [])
    try:
        args = parser.parse_args(words)
    except MsError as error:
        return _report(error, as_json="--json" in words)
    args.started = started
    assert module is not None  # argparse rejects every other verb
    try:
        with bounded_depth("the program"), allowing(*args.extension):
            return module.run(args)
    except MsError as error:
        return _report(error, as_json=getattr(args, "json", False))
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None:
            raise
        return _report(MsError(problem("MS702", f"cannot use {error.filename}", why=error.strerror)), as_json=args.json)
    except ModuleNotFoundError as error:
        missing = _missing_component(error)
        return _internal(error) if missing is None else _report(missing, as_json=getattr(args, "json", False))
    except Exception as error:  # noqa: BLE001 - the last resort: any other exception becomes one message and status 4
        return _internal(error)


def add_extension(parser: argparse.ArgumentParser, default: list[str] | str) -> None:
    """The option of every verb that permits loading packages; `argparse.SUPPRESS` is the default of verbs of a verb."""
    parser.add_argument(
        "--extension",
        action="append",
        default=default,
        metavar="PACKAGE",
        help="an installed package whose extensions may be loaded, which runs its code; repeatable",
    )


def _report(error: MsError, as_json: bool) -> int:
    from mslang.cli.render import print_error

    print_error(error, as_json)
    if error.diagnostic.code == WRONG_USE:
        return USAGE
    return UNAVAILABLE if isinstance(error, TargetError) else FINDINGS


def _missing_component(error: ModuleNotFoundError) -> TargetError | None:
    """MS514 if the missing module belongs to a package that mslang needs; None otherwise."""
    package = (error.name or "").partition(".")[0]
    if package not in COMPONENTS:
        return None
    return TargetError(
        problem(
            "MS514",
            f"{package} is not installed",
            why="mslang needs it for this command",
            help=f"{Path(sys.executable).name} -m pip install {package}",
        )
    )


def _internal(error: Exception) -> int:
    import tempfile
    import traceback

    details = "".join(traceback.format_exception(error))
    try:
        # Names of files may be no text.
        with tempfile.NamedTemporaryFile(
            "w", prefix="mslang-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as log:
            log.write(f"mslang {__version__}, Python {sys.version}\n{' '.join(sys.argv)}\n\n{details}")
        where, help = f"the details are in {log.name}", "please report it with that file"
    except OSError:
        where, help = "the details follow", f"please report it with them\n\n{details.rstrip()}"
    print(
        f"internal error[MS999]: {type(error).__name__}: {error}\n"
        f"  = note: this is a bug in mslang, not in your file; {where}\n"
        f"  = help: {help}",
        file=sys.stderr,
    )
    return INTERNAL


if __name__ == "__main__":
    raise SystemExit(main())
