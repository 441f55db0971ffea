"""`mslang lsp`: the language server, on standard input and output."""

from __future__ import annotations

import argparse
from importlib.metadata import entry_points

from mslang.cli.common import UsageError, standard_input
from mslang.diagnostics import TargetError, problem

OTHER_CHANNELS = ("--node-ipc", "--socket", "--pipe", "--port", "--tcp")
"""Flags for channels that the server does not support."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that clients add by themselves."""
    parser.add_argument("--stdio", action="store_true", help="standard input and output: the only channel there is")
    parser.add_argument("--clientProcessId", metavar="N", type=int, help="ignored: the server ends with its input")
    for flag in OTHER_CHANNELS:
        parser.add_argument(flag, nargs="?", const="", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Serve until the client ends the session.

    Returns:
        The exit status: 0, or 1 if the client disconnected without `shutdown` and `exit`.

    Raises:
        UsageError: the client requests an unsupported channel (MS701).
        MsError: MS702, standard input is closed.
        TargetError: the server's packages are not installed.
    """
    for flag in OTHER_CHANNELS:
        if getattr(args, flag.strip("-").replace("-", "_")) is not None:
            raise UsageError(
                f"the language server has standard input and output only, no `{flag}`", "mslang lsp --stdio"
            )
    standard_input()
    try:
        found = next(iter(entry_points(group="mslang.server", name="stdio")))
        serve = found.load()
    except (StopIteration, ImportError) as error:
        raise TargetError(
            problem(
                "MS499",
                "the language server is not installed",
                why=str(error) or None,
                help="in a checkout of mslang: pip install '.[lsp]'",
            )
        ) from error
    status: int = serve()
    return status
