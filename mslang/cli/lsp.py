"""`mslang lsp`: the language server, on standard input and output."""

from __future__ import annotations

import argparse
from importlib.metadata import entry_points

from mslang.cli.main import DONE
from mslang.diagnostics import TargetError, problem


def arguments(parser: argparse.ArgumentParser) -> None:
    """None: the client says all that there is to say."""


def run(args: argparse.Namespace) -> int:
    """Serve until the client ends it.

    Raises:
        TargetError: the server's packages are not installed.
    """
    try:
        found = next(iter(entry_points(group="mslang.server", name="stdio")))
        serve = found.load()
    except (StopIteration, ImportError) as error:
        raise TargetError(
            problem(
                "MS499",
                "the language server is not installed",
                why=str(error) or None,
                help="pip install 'mslang[lsp]'",
            )
        ) from error
    serve()
    return DONE
