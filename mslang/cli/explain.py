"""`mslang explain`: the long explanation of a diagnostic's code or of an operation."""

from __future__ import annotations

import argparse

from mslang.cli.common import emit
from mslang.cli.main import DONE
from mslang.diagnostics import MsError, problem
from mslang.suggestions import did_you_mean


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to explain."""
    parser.add_argument(
        "what", nargs="?", metavar="CODE|PRIMITIVE", help="e.g. MS201 or split; without it, a list of all"
    )


def run(args: argparse.Namespace) -> int:
    """Print the page."""
    from mslang.ide.pages import code_pages, library_page, library_pages, operation_page
    from mslang.transform.registries import REGISTRY

    pages = code_pages()
    if args.what is None:
        operations = REGISTRY.operations
        for name, title in [(c, p.title) for c, p in pages.items()] + [
            *((n, s.text) for n, s in operations.items()),
            *((n, p.title) for n, p in library_pages().items()),
        ]:
            emit({"kind": "page", "name": name, "title": title}) if args.json else print(f"{name:24} {title}")
        return DONE
    page = pages.get(args.what.upper()) or operation_page(args.what) or library_page(args.what)
    if page is None:
        reason = REGISTRY.problem(args.what)
        if reason is not None:
            raise MsError(reason)
        near = did_you_mean(args.what, [*REGISTRY.operations, *library_pages()])
        raise MsError(
            problem(
                "MS703",
                f"nothing to explain under '{args.what}'",
                help=near or "`mslang explain` lists all codes and operations",
            )
        )
    emit({"kind": "page", "name": page.name, "title": page.title, "text": page.text}) if args.json else print(page.text)
    return DONE
