"""Loading modules: reading files, following `use`, and refusing what cannot be found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from stat import S_ISREG
from types import MappingProxyType

import msgspec

from mslang.diagnostics import Diagnostic, MsError, Note, Span, problem
from mslang.sema.check import check_items
from mslang.sema.module import NAMED, Found, Module, Thing, Whole, exported, member
from mslang.sema.native import MODULES
from mslang.sema.report import fault, unknown
from mslang.suggestions import did_you_mean
from mslang.syntax import tree
from mslang.syntax.parse import parse_file

Reader = Callable[[str], str | None]
"""Gives the text of a file, or None if there is no such file."""


def read_disk(path: str) -> str | None:
    """The text of a file on disk, or None if there is none that can be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        # ValueError: the text is not UTF-8, or the path is none (it holds a zero character).
        return None


def load(
    path: str, text: str | None = None, reader: Reader = read_disk, packages: frozenset[str] | None = None
) -> Module:
    """The module of a file, with all that it uses.

    Args:
        path: the file.
        text: its text, if it is not to be read.
        reader: gives the text of files, the editor's unsaved ones first.
        packages: the installed packages whose primitives may be used (None: all).

    Raises:
        MsError: the file itself cannot be read; every other fault is among the module's diagnostics.
    """
    if text is None:
        text = reader(path)
    if text is None:
        raise MsError(
            problem(
                "MS120",
                f"cannot read `{path}`",
                why="there is no such file, or it is not UTF-8 text",
                help="check its name and that it may be read",
            )
        )
    return _Loader(reader, packages).module(path, text)


class _Loader:
    """Loads one module with its imports; each file once."""

    def __init__(self, reader: Reader, packages: frozenset[str] | None) -> None:
        self._reader = reader
        self._packages = packages
        self._done: dict[str, Module] = {}
        self._open: list[str] = []
        self._circles: set[str] = set()

    def module(self, path: str, text: str) -> Module:
        """The module of a text."""
        key = _same(path)
        self._open.append(key)
        file = parse_file(path, text)
        items, problems = _named(file)
        imports: dict[str, Thing] = {}
        lost: frozenset[str] = frozenset()
        spans: dict[str, Span] = {
            n: p.item.name.span.shifted(p.start) for n, p in items.items() if isinstance(p.item, NAMED)
        }
        for placed in file.items:
            if isinstance(placed.item, tree.Use):
                found = self._use(placed.item, path)
                problems += [d.placed(path, placed.start) for d in found.problems]
                lost |= found.lost
                for name, thing in found.things:
                    problems += _clash(name, spans, placed.start, path)
                    spans.setdefault(name.text, name.span.shifted(placed.start))
                    imports.setdefault(name.text, thing)
        library: dict[str, Thing] = {}
        for full_name in _full_names(file):
            with suppress(MsError):
                whole = self._whole(full_name.split("."), path)
                library |= {} if whole is None else {full_name: whole}
        made = Module(
            path,
            file,
            check_items,
            MappingProxyType(items),
            MappingProxyType(imports),
            tuple(problems),
            MappingProxyType(library),
            lost,
            self._packages,
        )
        self._open.pop()
        self._done[key] = made
        return made

    def _use(self, item: tree.Use, path: str) -> _Used:
        """What a `use` imports."""
        at = item.file if item.file is not None else item.path[-1]
        try:
            whole = self._source(item, path)
        except MsError as e:
            return _Used((), _bound(item), e.diagnostics)
        if whole is not None:
            return _pick(item, whole)
        if item.names is None and len(item.path) > 1:
            return self._use_one(item, path)
        return _Used((), _bound(item), (self._missing(item, path, at),))

    def _use_one(self, item: tree.Use, path: str) -> _Used:
        """`use std.cpu.avx512`: one item, named in full."""
        whole = self._whole([n.text for n in item.path[:-1]], path)
        last = item.path[-1]
        if whole is None:
            return _Used((), _bound(item), (self._missing(item, path, last),))
        thing = member(whole, last.text)
        if thing is None:
            shown = ".".join(n.text for n in item.path[:-1])
            return _Used((), _bound(item), (unknown("MS121", last, f"name in `{shown}`:", last.text, exported(whole)),))
        return _Used(((item.alias or last, thing),))

    def _missing(self, item: tree.Use, path: str, at: tree.Node) -> Diagnostic:
        if item.file is not None:
            return fault(
                "MS120",
                at,
                f"cannot read `{item.file.value}`",
                why=f"there is no such file next to `{PurePath(path).name}`",
            )
        help = did_you_mean(_shown(item), [*library_modules(), *MODULES])
        return fault("MS120", at, f"there is no module `{_shown(item)}`", help=help)

    def _source(self, item: tree.Use, path: str) -> Whole | None:
        if item.file is not None:
            return self._file(str(_beside(path, item.file.value)), None, item.file)
        return self._whole([n.text for n in item.path], path, item.path[0] if item.path else item)

    def _whole(self, names: list[str], path: str, at: tree.Node | None = None) -> Whole | None:
        """The module of a dotted name: a file of the library, native names, or both; else a file near `path`."""
        dotted = ".".join(names)
        natives = dotted if dotted in MODULES else None
        if names[0] == "std":
            found = self._file(_library_path(names[1:]), natives, at) if len(names) > 1 else None
        else:
            found = self._file(str(_beside(path, "/".join(names) + ".ms")), natives, at)
        return found if found is not None or natives is None else Whole(None, natives)

    def _file(self, path: str, natives: str | None, at: tree.Node | None) -> Whole | None:
        key = _same(path)
        if key in self._open:
            self._circles.update(self._open[self._open.index(key) :])
            raise _circle(at, key)
        if key not in self._done:
            text = None if _is_special(path) else self._reader(path)
            if text is None:
                return None
            self.module(path, text)
            if {key, self._open[-1]} <= self._circles:
                raise _circle(at, key)
        return Whole(self._done[key], natives)


def _circle(at: tree.Node | None, key: str) -> MsError:
    if at is None:
        return MsError()
    return MsError(
        fault(
            "MS122",
            at,
            f"this file and `{PurePath(key).name}` use each other",
            why="a file is loaded after all that it uses",
            help="move what both need into a third file",
        )
    )


class _Used(msgspec.Struct, frozen=True):
    """What one `use` imports, the names that it fails to import, and its diagnostics."""

    things: tuple[tuple[tree.Name, Thing], ...] = ()
    lost: frozenset[str] = frozenset()
    problems: tuple[Diagnostic, ...] = ()


def _bound(item: tree.Use) -> frozenset[str]:
    """The names that a `use` declares."""
    if item.names is not None:
        return frozenset(n.text for n in item.names)
    last = item.alias or (item.path[-1] if item.path else None)
    return frozenset() if last is None else frozenset({last.text})


def _pick(item: tree.Use, whole: Whole) -> _Used:
    """The names taken from a module, or the module itself."""
    shown = _shown(item)
    if item.names is None:
        name = item.alias or (item.path[-1] if item.path else None)
        if name is None:
            return _Used(
                problems=(
                    fault(
                        "MS121",
                        item,
                        "a file that is used as a whole needs a name",
                        help=f"write `use {shown} as x`, or `use {shown}.{{x}}`",
                    ),
                )
            )
        return _Used(((name, whole),))
    things: list[tuple[tree.Name, Thing]] = []
    problems: list[Diagnostic] = []
    for name in item.names:
        thing = member(whole, name.text)
        if thing is None:
            problems.append(unknown("MS121", name, f"name in `{shown}`:", name.text, exported(whole)))
        else:
            things.append((name, thing))
    return _Used(tuple(things), _bound(item) - {n.text for n, _ in things}, tuple(problems))


def _named(file: tree.File) -> tuple[dict[str, tree.PlacedItem], list[Diagnostic]]:
    """The items by name, and those whose name is taken."""
    items: dict[str, tree.PlacedItem] = {}
    problems: list[Diagnostic] = []
    for p in file.items:
        if not isinstance(p.item, NAMED):
            continue
        name = p.item.name
        first = items.setdefault(name.text, p)
        if first is not p and isinstance(first.item, NAMED):
            before = Note("first declared here", first.item.name.span.shifted(first.start), file.path)
            problems.append(
                fault("MS102", name, f"`{name.text}` is declared twice", notes=(before,)).placed(file.path, p.start)
            )
    return items, problems


def _clash(name: tree.Name, spans: Mapping[str, Span], start: int, path: str) -> list[Diagnostic]:
    if name.text not in spans:
        return []
    note = Note("declared here", spans[name.text], path)
    return [fault("MS102", name, f"`{name.text}` is declared twice", notes=(note,)).placed(path, start)]


def _full_names(file: tree.File) -> Iterator[str]:
    """The modules of the library that items of the file name in full (`std.tiling.multi_level` gives `std.tiling`)."""
    from mslang.sema.refer import dotted_names

    seen: set[str] = set()
    for p in file.items:
        if isinstance(p.item, tree.Use):
            continue
        for name in dotted_names(p.item):
            head = name.rpartition(".")[0]
            while head.startswith("std.") and head not in seen:
                seen.add(head)
                yield head
                head = head.rpartition(".")[0]


# ------------------------------------------------------------------ paths
def _same(path: str) -> str:
    try:
        return str(Path(path).resolve(strict=True))
    except (OSError, ValueError, RuntimeError):
        return str(PurePath(path))


def _is_special(path: str) -> bool:
    """Whether a path is that of a device, a pipe or the like: reading one may wait forever, or never end."""
    try:
        return not S_ISREG(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def _beside(path: str, other: str) -> PurePath:
    """The file `other` as seen from the file `path`, `..` taken away."""
    parts: list[str] = []
    for part in (*PurePath(path).parent.parts, *PurePath(other).parts):
        if part == ".." and parts and parts[-1] not in ("..", "/"):
            parts.pop()
        elif part != ".":
            parts.append(part)
    return PurePath(*parts)


def _library_path(names: list[str]) -> str:
    from mslang.resources import stdlib_folder

    return str(stdlib_folder().joinpath(*names[:-1], f"{names[-1]}.ms"))


def library_modules() -> list[str]:
    """The dotted names of the modules of the standard library that are written in `.ms`."""
    from mslang.resources import stdlib_folder

    folder = stdlib_folder()
    return [".".join(("std", *p.relative_to(folder).with_suffix("").parts)) for p in sorted(folder.rglob("*.ms"))]


def _shown(item: tree.Use) -> str:
    return f'"{item.file.value}"' if item.file is not None else ".".join(n.text for n in item.path)


__all__ = ["Found", "Module", "Reader", "Thing", "Whole", "load", "read_disk"]
