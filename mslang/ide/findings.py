"""All static diagnostics of a file: syntax, names, types of programs, kinds and liveness in schedules."""

from __future__ import annotations

from functools import lru_cache

from mslang.diagnostics import Diagnostic
from mslang.schedule.check import Checked, check_item
from mslang.sema.module import Module
from mslang.syntax import tree


def findings(module: Module) -> tuple[Diagnostic, ...]:
    """Everything found without running anything, in the order of the text."""
    found = list(module.diagnostics)
    for placed in module.file.items:
        found += [d.placed(module.path, placed.start) for d in checked(module, placed).diagnostics]
    return tuple(sorted(dict.fromkeys(found), key=lambda d: (d.span is None, d.span, d.code)))


def checked(module: Module, placed: tree.PlacedItem) -> Checked:
    """What the static checker says of one item."""
    return _checked(module, placed.item)


@lru_cache(maxsize=512)
def _checked(module: Module, item: tree.AnyItem) -> Checked:
    # A module is equal to itself only, so that what other items say can never be stale here.
    return check_item(module, item)
