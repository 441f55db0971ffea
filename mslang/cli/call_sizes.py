"""`--at M=64`: the sizes, known only at the call, that a kernel is run, shown or compared at."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mslang.cli.common import UsageError, likely
from mslang.diagnostics import MsError, problem
from mslang.ir.buckets import dynamic_sizes, require_sizes

if TYPE_CHECKING:
    from mslang.ir.program import Program
    from mslang.tune.instances import Instance


def at_argument(parser: argparse.ArgumentParser, purpose: str, *, repeatable: bool = False) -> None:
    """`--at M=64`, for what `purpose` says."""
    more: dict[str, Any] = {"action": "append", "default": []} if repeatable else {}
    parser.add_argument("--at", type=likely, metavar="M=64", help=purpose, **more)


def require_known_sizes(program: Program, at: Sequence[Instance], fixed: Mapping[str, int]) -> None:
    """Raise unless each `--at` gives every dynamic size of a program, and nothing else, a value in its range.

    Args:
        program: as `--set` made it.
        at: what `--at` says.
        fixed: what `--set` says.
    """
    for each in at:
        for name in each.sizes.keys() & fixed.keys():
            raise UsageError(
                f"--at: `--set {name}={fixed[name]}` compiles for one value of `{name}`, so that no call gives another",
                f"leave out `--set {name}={fixed[name]}` or `--at {name}={each.sizes[name]}`",
            )
        for name in each.sizes:
            if all(name != s.text for s in dynamic_sizes(program)):
                raise UsageError(f"--at: {program.name} has no size `{name}` that is known only at the call")
        require_sizes(program, each.sizes)


def require_all_sizes(program: Program, at: Sequence[Instance], fixed: Mapping[str, int]) -> None:
    """As `require_known_sizes`, and raise MS112 if a program has dynamic sizes and none is given."""
    sizes = dynamic_sizes(program)
    if sizes and not at:
        first = sizes[0].text
        raise MsError(
            problem(
                "MS112",
                f"size `{first}` is known only when the kernel is called",
                why="a kernel is run and timed on arrays of one size",
                help=f"`--at {first}=…` calls it with a size, `--set {first}=…` compiles it for one",
            )
        )
    require_known_sizes(program, at, fixed)
