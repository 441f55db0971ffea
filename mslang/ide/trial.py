"""Trial runs: each schedule of a file is run for some draws; refusals of primitives become diagnostics.

A primitive that refuses is an error at its statement if no draw is valid; else it is an information, for the
structures that reach it are only part of the space.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from mslang.diagnostics import Diagnostic, MsError, Severity, Span
from mslang.ide.dependencies import depends_on
from mslang.ide.findings import findings
from mslang.ide.keyed import Keyed
from mslang.ide.snapshot import Snapshot
from mslang.schedule.space import Candidate, Rejection, Space
from mslang.schedule.strategies import space_of
from mslang.sema.module import Found, Module
from mslang.sema.refer import nodes
from mslang.syntax import tree

DRAWS = 64

UNAVAILABLE = "MS266"
"""The code of a native name that cannot run here: the installation is at fault, not the file."""


PINNED = "MS260"
"""The code of pins that a requirement rejects: there is nothing to draw, so no draws are counted."""


def trial_names(module: Module) -> tuple[str, ...]:
    """The schedules and spaces of a file that can be run: those without errors of their own or of what they name."""
    wrong = [(d.path or module.path, d.span) for d in findings(module) if d.severity is Severity.ERROR]
    return tuple(
        n
        for n, p in module.items.items()
        if isinstance(p.item, tree.Schedule | tree.Space) and not _is_wrong(p, wrong, module.path)
    )


def _is_wrong(placed: tree.PlacedItem, wrong: list[tuple[str, Span | None]], path: str) -> bool:
    end = placed.start + len(placed.parsed.text)
    return any(p == path and (s is None or placed.start <= s.start < end) for p, s in wrong)


def trial(snapshot: Snapshot, path: str, name: str, draws: int = DRAWS) -> tuple[Diagnostic, ...]:
    """What running a schedule or space for `draws` draws finds; spans count from the item's start.

    Raises:
        MsError: the file cannot be read.
    """
    module = snapshot.module(path)
    placed = module.items.get(name)
    if placed is None or not isinstance(placed.item, tree.Schedule | tree.Space):
        return ()
    found = Found(module, placed)
    return _trial(Keyed((name, depends_on(found), draws), (found, draws)))


def trial_key(module: Module, name: str) -> int:
    """A number that changes, in one process, when what `trial` finds of a schedule of the module may change."""
    return hash(depends_on(Found(module, module.items[name])))


@lru_cache(maxsize=256)
def _trial(work: Keyed[tuple[Found, int]]) -> tuple[Diagnostic, ...]:
    found, draws = work.value
    assert isinstance(found.item, tree.Schedule | tree.Space)
    at = found.item.name.span
    try:
        space = space_of(found.module, found.item.name.text)
    except MsError:
        # The program or the target is at fault, which static checking has said where they are written.
        return ()
    try:
        space.sample(0)
    except MsError as error:
        if error.diagnostic.code == PINNED:
            return (error.diagnostic.at(at),)
    refused: Counter[Diagnostic] = Counter()
    stale: dict[Diagnostic, None] = {}
    rejected: Counter[str] = Counter()
    valid = illegal = False
    for k in range(draws):
        try:
            drawn = space.attempt(0, k)
        except MsError as error:
            refused[error.diagnostic] += 1
            continue
        match drawn:
            case Candidate() if not drawn.sketch.addresses:
                return ()
            case Candidate():
                valid = True
                stale |= dict.fromkeys(w.at(_pin_span(w, found.item) or at) for w in drawn.warnings)
            case Rejection(illegal=True, error=MsError() as refusal):
                refused[refusal.diagnostic] += 1
                illegal = True
            case Rejection(reason=reason):
                rejected[reason] += 1
    outcome = [*stale, *(_refusal(d, n, draws, found, valid) for d, n in refused.items())]
    if valid and illegal:
        outcome += _dead_cases(space, found.item)
    if rejected and sum(rejected.values()) == draws:
        reasons = "; ".join(f"{n} of {draws}: {why}" for why, n in rejected.most_common(3))
        outcome.append(
            Diagnostic(
                "MS261",
                f"no draw of {draws} is valid",
                at,
                Severity.WARNING,
                why=reasons,
                help="loosen the requirements, or pin decisions that satisfy them",
            )
        )
    return tuple(outcome)


def _dead_cases(space: Space, item: tree.Schedule | tree.Space) -> Iterator[Diagnostic]:
    """The cases of the item's own forks with which no draw is ever legal."""
    never = space.never_legal()
    for fork in nodes(item):
        if not isinstance(fork, tree.Fork):
            continue
        name = "fork" if fork.name is None else fork.name.text
        for case in fork.cases:
            if isinstance(case, tree.Bad):
                continue
            refusals = [
                d for (a, label), d in never.items() if a.rpartition("/")[2] == name and label == case.name.text
            ]
            if refusals:
                d = refusals[0]
                yield Diagnostic(
                    "MS131",
                    f"case `{case.name.text}` is never legal",
                    case.name.span,
                    Severity.WARNING,
                    why=f"{d.message}, whatever is drawn" + (f": {d.why}" if d.why else ""),
                    help=d.help or "change what it does, or delete it: draws of it are lost",
                )


def _refusal(d: Diagnostic, count: int, of: int, found: Found, valid: bool) -> Diagnostic:
    """A refusal where it happened in this item, else at the item's name; spans count from the item. It is an error
    unless a draw is valid."""
    here = _in_item(d, found)
    span = here if here is not None else found.item.name.span
    severity = Severity.INFORMATION if valid or d.code == UNAVAILABLE else Severity.ERROR
    why = d.why
    if count < of:
        why = f"fails for {count} of {of} draws" + (f"; {d.why}" if d.why else "")
    return Diagnostic(d.code, d.message, span, severity, why, d.help)


def _pin_span(stale: Diagnostic, item: tree.AnyItem) -> Span | None:
    """Where the pin stands that a warning is about."""
    for node in nodes(item):
        match node:
            case tree.Pin() if stale.message.startswith(f"the pin `{node.address} ="):
                return node.span
            case tree.Sample(name=name, value=tree.Node() as value) if stale.message.startswith(
                f"the pin `{name.text} ="
            ):
                return value.span
    return None


def _in_item(d: Diagnostic, found: Found) -> Span | None:
    end = found.placed.start + len(found.placed.parsed.text)
    places = [(d.path, d.span), *((n.path, n.span) for n in d.notes)]
    for path, span in places:
        if path == found.module.path and span is not None and found.placed.start <= span.start < end:
            return span.shifted(-found.placed.start)
    return None
