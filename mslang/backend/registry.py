"""Which back ends there are, and which one serves a target. Only this module asks what kind a target is.

Built in are `llvm` (CPUs) and `reference` (the interpreter). Packages add others by entry point:

    [project.entry-points."mslang.backends"]
    mine = "package.module:MINE"

A back end made in Python is passed as a value, `ms.build(program, backend=mine)`; nothing is registered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from mslang.backend.backend import BackEnd
from mslang.diagnostics import MsError, TargetError, problem
from mslang.extensions import BACK_ENDS, declared, extension, extensions
from mslang.suggestions import did_you_mean
from mslang.target.description import Target
from mslang.target.detect import host
from mslang.target.named import target_of

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "llvm": "mslang.backend.llvm.backend:LLVM",
        "cuda": "mslang.backend.cuda.backend:CUDA",
        "reference": "mslang.backend.reference.backend:REFERENCE",
    }
)
"""Where each built-in back end is defined, in the order in which they are asked whether they serve a target."""


def back_end_names() -> tuple[str, ...]:
    """The names of all back ends, the built-in ones first; none is loaded."""
    return tuple(dict.fromkeys((*BUILT_IN, *declared(BACK_ENDS))))


def back_end(name: str) -> BackEnd[Any]:
    """The back end of a name; a built-in name means the built-in back end, always.

    Raises:
        MsError: MS450, there is none; MS212 or MS213, the package that declares it is broken.

    >>> back_end("llvm").kinds
    ('cpu',)
    """
    if name in BUILT_IN:
        module, _, value = BUILT_IN[name].partition(":")
        built_in = getattr(import_module(module), value)
        assert isinstance(built_in, BackEnd)
        return built_in
    found = extension(BACK_ENDS, name, BackEnd)
    if found is None:
        known = back_end_names()
        why = f"the back ends are {', '.join(known)}"
        raise MsError(problem("MS450", f"unknown back end `{name}`", why=why, help=did_you_mean(name, known)))
    if found.problem is not None:
        raise MsError(found.problem)
    assert isinstance(found.value, BackEnd)
    return found.value


def serving(target: Target) -> BackEnd[Any]:
    """The back end that compiles for a target where none is named.

    Raises:
        TargetError: MS404, no back end serves targets of its kind.
    """
    found = next((b for b in _loadable() if target.kind in b.kinds), None)
    if found is not None:
        return found
    broken = [e.problem.message for e in extensions(BACK_ENDS, BackEnd) if e.problem is not None]
    raise TargetError(
        problem(
            "MS404",
            f"no back end compiles for `{target.name}`, a {target.kind} target",
            why="; ".join(broken) or None,
            help="install a package that declares a back end for it, or choose another target",
        )
    )


def _loadable() -> Iterator[BackEnd[Any]]:
    """Every back end that can be loaded, packages last: they are imported only if no other is the one."""
    yield from map(back_end, BUILT_IN)
    yield from (e.value for e in extensions(BACK_ENDS, BackEnd) if isinstance(e.value, BackEnd))


def compiling(wanted: Target, at_hand: Target, name: str | None = None) -> tuple[BackEnd[Any], Target]:
    """What compiles, and for which target: the one at hand, if it is of the same kind as `wanted`.

    A schedule `on avx2` is tried on the processor at hand; one on a GPU is not.

    Args:
        wanted: what a schedule is on.
        at_hand: the machine, or what the user asked for.
        name: the back end (default: what serves the target).

    Raises:
        TargetError: MS404, no back end serves it.
        MsError: there is no back end of that name, or it cannot be loaded.
    """
    target = at_hand if wanted.kind == at_hand.kind else wanted
    return (serving(target) if name is None else back_end(name)), target


def plain_target(target: Target) -> Target:
    """The target that unscheduled programs are compiled for: `target`, or the host where it needs a schedule."""
    return target if serving(target).plain else host()


def require_runnable(used: BackEnd[Any], target: Target) -> None:
    """Raise TargetError MS403 if this machine cannot run what a back end makes for a target."""
    reason = used.unavailable(target)
    if reason is not None:
        raise TargetError(
            problem(
                "MS403",
                f"this machine cannot run code for {target.name}",
                why=reason,
                help="leave out the target to use this machine",
            )
        )


def runnable_target(target: Target | str | None) -> Target:
    """A target whose code this machine can run; None is this machine.

    Raises:
        MsError: MS703, there is no target of that name; MS706, it is no target.
        TargetError: MS403, this machine cannot run code for it; MS404, no back end compiles for it.

    >>> runnable_target(None) == runnable_target("host")
    True
    """
    if target is None:
        return host()
    found = target_of(target)
    require_runnable(serving(found), found)
    return found


def unavailable_here(name: str) -> str | None:
    """Why this machine cannot run what a back end makes; None if it can.

    Raises:
        MsError: the back end cannot be loaded.
    """
    found = back_end(name)
    served = next((host() if kind == host().kind else Target(kind, kind) for kind in found.kinds), host())
    return found.unavailable(served)
