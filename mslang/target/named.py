"""Targets by the names that the command line and Python take."""

from __future__ import annotations

from mslang.brevity import brief
from mslang.diagnostics import MsError, problem
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


def target_of(given: Target | str | None) -> Target:
    """A target, the one of a name, or for None this machine.

    Raises:
        MsError: MS703, there is no such target; MS706, it is something else.

    >>> target_of(None) == target_of("host")
    True
    """
    match given:
        case None:
            return host()
        case str():
            return named_target(given)
        case Target():
            return given
    why = f"`target` is a target or its name, as {', '.join(repr(name) for name in TARGETS)}"
    raise MsError(problem("MS706", f"{brief(repr(given))} is not a target", why=why))
