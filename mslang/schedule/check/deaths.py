"""Messages on names that a primitive has consumed."""

from __future__ import annotations

from mslang.diagnostics import Diagnostic, Fix, Note, Severity, Span
from mslang.ir.text import name_text
from mslang.schedule.check.kinds import Death, Environment
from mslang.syntax import tree


def dead(name: tree.Name, death: Death, names: Environment) -> Diagnostic:
    """The error of using a consumed name: the consumer, and the replacements."""
    living, story, notes = _traced(death, names)
    into = ", ".join(f"`{n}`" for n in living)
    fixes = (Fix(f"use `{living[0]}`", name.span, name_text(living[0])),) if living else ()
    message = f"`{name.text}` no longer exists" if death.certain else f"`{name.text}` may no longer exist"
    return Diagnostic(
        "MS211",
        message,
        name.span,
        Severity.ERROR if death.certain else Severity.WARNING,
        why=f"`{death.by}` consumed it" + ("" if death.certain else " on one of the paths to here") + story,
        help=f"use its replacement: {into}" if into else None,
        notes=tuple(Note("consumed here", at) for at in notes),
        fixes=fixes,
    )


def _traced(death: Death, names: Environment) -> tuple[list[str], str, list[Span]]:
    """The live replacements of a dead name, the fate of the dead ones, and where they were consumed."""
    living: list[str] = []
    story = ""
    spans = [death.span]
    queue = list(death.into)
    for each in queue:
        then = names[each].death if each in names else None
        if then is None:
            living.append(each)
            continue
        story += f"; `{each}`, its replacement, by `{then.by}`"
        spans += [then.span] if then.span not in spans else []
        queue += [n for n in then.into if n not in queue]
    return living, story, spans
