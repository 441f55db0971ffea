"""What `--apply` and `mslang apply` ask the passes for."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.cli.db_selection import machine_key
from mslang.cli.items import load_clean
from mslang.target.description import Target

if TYPE_CHECKING:
    from mslang.apply.passes import Applied
    from mslang.ir.program import Program
    from mslang.sema.module import Module
    from mslang.tune.stores import Store


def passes_arguments(parser: argparse.ArgumentParser) -> None:
    """`--machine --patterns`."""
    parser.add_argument(
        "--machine", metavar="NAME|KEY", help="`db` takes the records of another machine (default: of this one)"
    )
    parser.add_argument(
        "--patterns",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a file whose programs with schedules are patterns of `dispatch`, before the library's; repeatable",
    )


def applied(
    args: argparse.Namespace, passes: str, module: Module, path: Path, programs: Iterable[Program], target: Target
) -> tuple[Applied, ...]:
    """What the passes make of programs of a file.

    Args:
        args: `db`, and `machine` and `patterns` where the verb has them.
        passes: the names of passes, separated by commas.
        module: the file's module.
        path: the file; its store is the default.
        programs: its programs.
        target: what will run them.
    """
    from mslang.apply.apply import apply
    from mslang.apply.standard import Sources, pass_names, standard_passes

    patterns = tuple(load_clean(p) for p in getattr(args, "patterns", ()))
    with _store(args.db, path) as store:
        wanted = getattr(args, "machine", None)
        key = None if wanted is None or store is None else machine_key(_machines(store), wanted)
        sources = Sources(target, store, module, patterns, key)
        return apply(programs, standard_passes(pass_names(passes), sources), target)


@contextmanager
def _store(given: Path | str | None, path: Path) -> Iterator[Store | None]:
    """The store that is named, or the one next to the file if there is one."""
    from mslang.tune.stores import open_store

    beside = path.parent / ".mslang" / "records.db"
    if given is None and not beside.exists():
        yield None
        return
    store = open_store(beside if given is None else given)
    try:
        yield store
    finally:
        store.close()


def _machines(store: Store) -> dict[str, str]:
    from mslang.tune.record import Record

    return {r.machine: r.device for r in store.records() if isinstance(r, Record)}
