"""Finding the items that a command line names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.diagnostics import Diagnostic, MsError, Severity, Span, bounded_depth, problem

if TYPE_CHECKING:
    from mslang.ir.program import Program
    from mslang.sema.module import Module
    from mslang.syntax import tree


def load_clean(path: Path, name: str | None = None) -> Module:
    """A file's module; prints its warnings and raises its errors (for one item: the errors of its dependencies)."""
    from mslang.cli.common import counted, note, read_text, shell_word
    from mslang.cli.render import print_diagnostics
    from mslang.ide.findings import findings
    from mslang.rendering import Texts
    from mslang.sema.modules import load

    with bounded_depth(path):
        module = load(str(path), read_text(path))
        found = findings(module)
        concerned = _concerned(module, name)
    errors = [d for d in found if d.severity is Severity.ERROR]
    if any(_is_in(d, module, concerned) for d in errors):
        raise MsError(*errors)
    if errors:
        note(f"passing over {counted(len(errors), 'error')} in other items: mslang check {shell_word(path)}")
    print_diagnostics(
        [d for d in found if d.severity is Severity.WARNING and _is_in(d, module, concerned)],
        stream=sys.stderr,
        texts=Texts({str(path): module.file.text}),
    )
    return module


def _concerned(module: Module, name: str | None) -> list[tuple[str, Span]] | None:
    """The spans of an item and its dependencies; None for the whole file."""
    from mslang.ide.dependencies import names_in
    from mslang.sema.module import Found

    first = None if name is None else module.find(name)
    if not isinstance(first, Found):
        return None
    queue, seen = [first], dict[tuple[str, Span], None]()
    while queue:
        this = queue.pop()
        place = this.module.path, Span(this.placed.start, this.placed.start + len(this.placed.parsed.text))
        if place not in seen:
            seen[place] = None
            queue += [t for t in map(this.module.find, names_in(this.placed)) if isinstance(t, Found)]
    return list(seen)


def _is_in(d: Diagnostic, module: Module, places: list[tuple[str, Span]] | None) -> bool:
    path = d.path or module.path
    return places is None or d.span is None or any(p == path and s.start <= d.span.start <= s.end for p, s in places)


def program_of(module: Module, name: str | None, sizes: Mapping[str, int]) -> Program:
    """A program of the module with its sizes; its only program if `name` is None."""
    from mslang.sema.program import instantiate

    if name is None:
        name = only(module.programs, "program", module.path)
    elif name not in module.programs:
        raise unknown_item("program", name, module.programs, module.path)
    return instantiate(module, name, own_sizes(module.programs[name], sizes))


def size_names(module: Module, name: str) -> list[str]:
    """The sizes of a program, or of the program that a schedule or space is for."""
    from mslang.sema.module import Found
    from mslang.syntax import tree

    item = module.schedules.get(name) or module.spaces.get(name)
    path = None if item is None else item.program
    found = module.find(name if path is None else ".".join(n.text for n in path))
    program = found.item if isinstance(found, Found) else None
    return [s.name.text for s in program.sizes] if isinstance(program, tree.Program) else []


def sizes_for(module: Module, name: str, given: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Those of the sizes given on the command line that the program of an item has; others are of other programs."""
    known = size_names(module, name)
    return {size: value for size, value in given if size in known}


def require_known(given: Iterable[tuple[str, int]], known: Iterable[str], places: Sequence[str]) -> None:
    """Raise MS703 if a size given on the command line is one of no program; `places` are what was named."""
    from mslang.suggestions import did_you_mean

    names = sorted(known)
    for size, _ in given:
        if size not in names:
            first, *others = dict.fromkeys(places)
            where = f"none of {', '.join(places)} has a" if others else f"{first} has no"
            why = f"there are: {', '.join(names) or 'none'}"
            raise MsError(problem("MS703", f"{where} size `{size}`", why=why, help=did_you_mean(size, names)))


def own_sizes(program: tree.Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes given on the command line; the program must have all of them."""
    known = [s.name.text for s in program.sizes]
    for name in sizes:
        if name not in known:
            raise unknown_item("size", name, known, program.name.text)
    return dict(sizes)


def only(items: Mapping[str, object], what: str, path: str) -> str:
    """The name of the only item; MS704 if there is none or several."""
    from mslang.cli.common import shell_word

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
            help=f"name one: {shell_word(f'{path}:{next(iter(items))}')}",
        )
    )


def unknown_item(what: str, name: str, known: Iterable[str], where: str) -> MsError:
    """The error of an unknown item."""
    from mslang.suggestions import did_you_mean

    names = list(known)
    listed = ", ".join(names) or "none"
    return MsError(
        problem(
            "MS703",
            f"{where} has no {what} `{name}`",
            why=f"there are: {listed}",
            help=did_you_mean(name, names),
        )
    )
