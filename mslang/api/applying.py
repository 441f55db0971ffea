"""The best schedules that are known, without tuning."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.api.arguments import misused, require_lists, require_store
from mslang.api.source import Source
from mslang.brevity import brief
from mslang.diagnostics import MsError, problem
from mslang.ir.program import Program
from mslang.target.description import Target
from mslang.target.named import target_of

if TYPE_CHECKING:
    from mslang.apply.passes import Applied, Pass
    from mslang.tune.stores import Store


def apply(
    programs: Source | Program | Iterable[Program],
    passes: Sequence[str | Pass] = ("db", "dispatch", "default"),
    *,
    target: Target | str | None = None,
    database: Store | str | os.PathLike[str] | None = ".mslang/records.db",
    machine: str | None = None,
    patterns: Sequence[Source] = (),
) -> tuple[Applied, ...]:
    """The best schedule known for each program, by passes in order; nothing is tuned or measured.

    Args:
        programs: a source, of which all programs are meant; a program, or several.
        passes: what is asked for a schedule, in order: `"db"` (records of this machine), `"dispatch"` (schedules of
            programs that match a pattern), `"default"` (a fixed choice), `"library"` (functions of other libraries
            for programs that match a pattern, of packages that were allowed; `"library:NAME"`: one of them), or
            objects with a `name` and a method `serve(program, target)` that gives `Served` or `Missed`, such as an
            `ms.LibraryCall`.
        target: the machine or its name (default: this one).
        database: the records: a `Database` or another store, or the name of one; a file that is not there has none,
            nor has None.
        machine: the key of the machine whose records count (default: this one).
        patterns: sources whose programs with schedules are patterns, before the library's.

    Returns what came of each program: `.program` is the scheduled one, `.by` the pass that served it, `.explanation()`
    says why others missed. `ms.build` takes it.

    Raises:
        MsError: MS706, an argument is of the wrong kind; MS611, there is no pass of a name; MS601 to MS603, the store
            cannot be used; MS271, MS272, a library call is not there or its package not allowed; MS614, it is not
            usable.

    >>> import mslang as ms
    >>> p = ms.parse_program("program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] + 1.0 } }")
    >>> (done,) = ms.apply(p, ["default"], target="avx2")
    >>> print(done.explanation())
    p: default: fixed choices for avx2, 1 steps
    """
    from mslang.apply.apply import apply as run
    from mslang.apply.standard import Sources, pass_names, standard_passes
    from mslang.tune.stores import open_store

    if isinstance(passes, str):
        help = f"write `passes={pass_names(passes)!r}`"
        raise MsError(problem("MS706", f"`passes` of `ms.apply` is a text, {brief(repr(passes))}", help=help))
    require_lists("apply", passes=passes, patterns=patterns)
    for each in passes:
        if not isinstance(each, str) and not callable(getattr(each, "serve", None)):
            raise misused("apply", each, "passes by name, or objects with a `name` and a method `serve`")
    for source in patterns:
        if not isinstance(source, Source):
            raise misused("apply", source, "sources as patterns")
    if database is not None:
        require_store("apply", database)
    world = target_of(target)
    module = programs.module if isinstance(programs, Source) else None
    wanted = _programs_in(programs)
    opened = open_store(database) if isinstance(database, str | os.PathLike) and _is_there(database) else None
    store = opened if opened is not None or isinstance(database, str | os.PathLike) else database
    try:
        sources = Sources(world, store, module, tuple(p.module for p in patterns), machine)
        return run(wanted, standard_passes(passes, sources), world)
    finally:
        if opened is not None:
            opened.close()


def _is_there(database: str | os.PathLike[str]) -> bool:
    """Whether a name is that of a kind of store, or of a file that there is."""
    from mslang.tune.stores import names_kind

    return names_kind(database) or Path(database).exists()


def _programs_in(what: Source | Program | Iterable[Program]) -> list[Program]:
    match what:
        case Source():
            return [what.program(n) for n in what.programs]
        case Program():
            return [what]
    if not isinstance(what, Iterable):
        raise misused("apply", what, "a source or programs")
    found = list(what)
    wrong = next((p for p in found if not isinstance(p, Program)), None)
    if wrong is not None:
        raise misused("apply", wrong, "a source or programs")
    return found
