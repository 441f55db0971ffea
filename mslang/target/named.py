"""Targets by the names that the command line and Python take."""

from __future__ import annotations

from mslang.diagnostics import MsError, TargetError, problem
from mslang.suggestions import did_you_mean
from mslang.target.description import TARGETS, Target
from mslang.target.detect import host


def named_target(name: str) -> Target:
    """The target called `name`: `host` is this machine.

    Raises:
        MsError: MS703, there is no such target.
    """
    if name == "host":
        return host()
    if name in TARGETS:
        return TARGETS[name]
    known = ("host", *TARGETS)
    listed = f"the targets are {', '.join(known)}"
    raise MsError(problem("MS703", f"unknown target `{name}`", why=listed, help=did_you_mean(name, known)))


def runnable_target(target: Target | str | None) -> Target:
    """A target whose code this machine can run; None is this machine.

    Raises:
        MsError: MS703, there is no target of that name.
        TargetError: MS403, this machine cannot run code for it.

    >>> runnable_target(None) == runnable_target("host")
    True
    """
    if target is None:
        return host()
    found = named_target(target) if isinstance(target, str) else target
    if found.kind != "cpu" or not set(found.features) <= set(host().features):
        raise TargetError(
            problem(
                "MS403",
                f"this machine cannot run code for {found.name}",
                help="leave out the target to use this machine",
            )
        )
    return found
