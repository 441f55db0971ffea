"""Finding the items that a command line names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.diagnostics import MsError, Severity, problem

if TYPE_CHECKING:
    from mslang.ir.program import Program
    from mslang.sema.module import Module
    from mslang.syntax import tree


def load_clean(path: Path) -> Module:
    """A file's module; raises its errors, prints its warnings."""
    from mslang.cli.common import bounded_depth, read_text
    from mslang.cli.render import Texts, print_diagnostics
    from mslang.ide.findings import findings
    from mslang.sema.modules import load

    with bounded_depth(path):
        module = load(str(path), read_text(path))
        found = findings(module)
    errors = [d for d in found if d.severity is Severity.ERROR]
    if errors:
        raise MsError(*errors)
    print_diagnostics(
        [d for d in found if d.severity is Severity.WARNING],
        stream=sys.stderr,
        texts=Texts({str(path): module.file.text}),
    )
    return module


def program_of(module: Module, name: str | None, sizes: Mapping[str, int]) -> Program:
    """A program of the module with its sizes; the only one if `name` is None."""
    from mslang.sema.program import instantiate

    if name is None:
        name = only(module.programs, "program", module.path)
    elif name not in module.programs:
        raise unknown_item("program", name, module.programs, module.path)
    return instantiate(module, name, own_sizes(module.programs[name], sizes))


def own_sizes(program: tree.Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes given on the command line, all of which the program must have."""
    known = [s.name.text for s in program.sizes]
    for name in sizes:
        if name not in known:
            raise unknown_item("size", name, known, program.name.text)
    return dict(sizes)


def only(items: Mapping[str, object], what: str, path: str) -> str:
    """The name of the only item; MS704 if there is none or several."""
    if len(items) == 1:
        return next(iter(items))
    if not items:
        raise MsError(problem("MS704", f"{path} has no {what}"))
    names = ", ".join(items)
    raise MsError(
        problem(
            "MS704",
            f"{path} has several {what}s",
            why=f"they are {names}",
            help=f"name one: {path}:{next(iter(items))}",
        )
    )


def unknown_item(what: str, name: str, known: Iterable[str], where: str) -> MsError:
    """The error of a name that is not there."""
    from mslang.sema.report import nearest

    names = list(known)
    near = nearest(name, names)
    listed = ", ".join(names) or "none"
    return MsError(
        problem(
            "MS703",
            f"{where} has no {what} `{name}`",
            why=f"there are: {listed}",
            help=f"did you mean `{near}`?" if near else None,
        )
    )
