"""Where in the standard library a name is: for messages about a name that is not imported."""

from __future__ import annotations

import re
from functools import lru_cache

from mslang.sema.native import MODULES

_ITEM = re.compile(r"^(?:program|schedule|rule|fn|space|intrin|target|const) (\w+)", re.MULTILINE)


def library_help(name: str) -> str | None:
    """The `use` that brings a name of the library, as help; None if the library does not have it."""
    modules = _modules().get(name)
    return None if modules is None else f"write `use {modules[0]}.{{{name}}}` at the top of the file"


@lru_cache(maxsize=1)
def _modules() -> dict[str, list[str]]:
    """The modules that have each name."""
    from mslang.resources import stdlib_folder

    found: dict[str, list[str]] = {}
    for module, natives in MODULES.items():
        for name in natives:
            found.setdefault(name, []).append(module)
    folder = stdlib_folder()
    for path in sorted(folder.rglob("*.ms")):
        module = ".".join(("std", *path.relative_to(folder).with_suffix("").parts))
        for name in _ITEM.findall(path.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(module)
    return found
