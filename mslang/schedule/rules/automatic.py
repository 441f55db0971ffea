"""The space of a program without a schedule: made by rules."""

from __future__ import annotations

from collections.abc import Iterable

from mslang.ir.program import Program
from mslang.schedule.interpret import Interpreter, World
from mslang.schedule.rules.rule import Rule, apply_rules
from mslang.schedule.rules.sets import rules_for
from mslang.schedule.session import Session
from mslang.schedule.space import Space
from mslang.target.description import Target
from mslang.transform.registries import REGISTRY, Registry

NAME = "automatic"
"""The space's name in records and messages; it is not an item of a file."""


def automatic_space(
    program: Program,
    machine: Target,
    rules: Iterable[Rule] | None = None,
    *,
    name: str = NAME,
    registry: Registry = REGISTRY,
) -> Space:
    """The space that rules make of a program.

    Args:
        program: what to schedule.
        machine: the value of `machine`.
        rules: applied in this order (default: the set for the machine, `rules_for`).
        name: the space's name in records and messages.
        registry: the primitives that the rules may use.

    Raises:
        MsError: MS273, no rules are given and there are none for targets of this kind.
    """
    world = World(machine=machine, registry=registry)
    used = rules_for(machine) if rules is None else tuple(rules)

    def recipe(session: Session) -> None:
        apply_rules(Interpreter(session, world), used)

    return Space(program, recipe, name=name, item=False, registry=registry)
