"""Help for a name that a schedule does not know: what was probably meant, or what is in scope."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.diagnostics import Diagnostic, Fix
from mslang.ir.text import name_text
from mslang.ops.signature import Kind
from mslang.schedule.check.kinds import Binding
from mslang.sema.foreign import WORDS
from mslang.sema.report import fault
from mslang.suggestions import listed
from mslang.syntax import tree

_MOST = 8
"""Names listed of one sort."""


def certain_help(name: tree.Name, names: Mapping[str, Binding]) -> Diagnostic | None:
    """The error of an unknown name of which it is known what was meant: an axis without its block, a word of Python."""
    owners = [n for n, b in names.items() if b.value.kind is Kind.BLOCK and name.text in (b.value.axes or ())]
    if not owners and name.text not in WORDS:
        return None
    ways = [f"{name_text(block)}.{name_text(name.text)}" for block in owners]
    fixes = (Fix(f"write `{ways[0]}`", name.span, ways[0]),) if len(ways) == 1 else ()
    help = f"write {listed([f'`{w}`' for w in ways], 'or')}" if ways else WORDS[name.text]
    why = "an axis is named with its block" if ways else None
    return fault("MS201", name, f"unknown name `{name.text}`", why=why, help=help, fixes=fixes)


def in_scope(names: Mapping[str, Binding]) -> str | None:
    """The blocks and buffers in scope, as help; None if there are none, or too many."""
    parts = []
    for sort, kind in (("block", Kind.BLOCK), ("buffer", Kind.BUFFER)):
        found = [f"`{n}`" for n, b in names.items() if b.value.kind is kind]
        if 0 < len(found) <= _MOST:
            parts.append(f"the {sort}{'s' * (len(found) > 1)} {listed(found, 'and')}")
    return f"in scope are {', '.join(parts)}" if parts else None
