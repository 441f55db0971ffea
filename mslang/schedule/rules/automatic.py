"""The space of a program without a schedule: made by rules."""

from __future__ import annotations

from collections.abc import Iterable

from mslang.diagnostics import MsError, problem
from mslang.extensions import SPACES, Function, allowed, declared, load
from mslang.ir.program import Program
from mslang.schedule.interpret import Interpreter, World
from mslang.schedule.rules.postprocess import Postprocessor, postprocess
from mslang.schedule.rules.rule import Rule, apply_rules
from mslang.schedule.rules.sets import SETS, narrowed, postprocessors_for, postprocessors_of, rules_for, set_named
from mslang.schedule.session import Session
from mslang.schedule.space import Space
from mslang.sema.module import Module
from mslang.target.description import Target
from mslang.transform.registries import REGISTRY, Registry

NAME = "automatic"
"""The space's name in records and messages; it is not an item of a file."""


def automatic_space(
    program: Program,
    machine: Target,
    rules: Iterable[Rule] | None = None,
    postprocessors: Iterable[Postprocessor] | None = None,
    *,
    name: str = NAME,
    registry: Registry = REGISTRY,
    named: Iterable[Rule] = (),
    module: Module | None = None,
) -> Space:
    """The space that rules make of a program.

    Args:
        program: what to schedule.
        machine: the value of `machine`.
        rules: applied in this order (default: the set for the machine, `rules_for`).
        postprocessors: applied after them in this order (default: `postprocessors_for` the machine, whatever the rules
            are).
        name: the space's name in records and messages.
        registry: the primitives that the rules may use.
        named: rules that annotations of blocks (`schedule_rule`) may name.
        module: the program's file, whose rules annotations may name as well.

    Raises:
        MsError: MS273, no rules are given and there are none for targets of this kind; MS212 or MS213, a package's
            postprocessor cannot be loaded.
    """
    world = World(machine=machine, registry=registry, rules=tuple(named), module=module)
    used = rules_for(machine) if rules is None else tuple(rules)
    last = postprocessors_for(machine) if postprocessors is None else tuple(postprocessors)

    def recipe(session: Session) -> None:
        it = Interpreter(session, world)
        apply_rules(it, used)
        postprocess(it, last)

    return Space(program, recipe, name=name, item=False, registry=registry)


def space_named(program: Program, machine: Target, name: str, *, module: Module | None = None) -> Space:
    """The space that a rule set of the library makes, or a space generator of an allowed package.

    A set makes the same space as without a name where it is the target's own; another one makes that of the target
    without the features that it omits.

    Args:
        program: what to schedule.
        machine: the target.
        name: the set (`cpu`, `quick`), or the generator's name among `mslang.spaces`: a function of the program and the
            target that gives a space of that program.
        module: the program's file, whose rules annotations may name.

    Raises:
        MsError: MS273, there is no such set or generator, or the set does not serve the target; MS272, the generator's
            package is not allowed; MS212 or MS213, it cannot be loaded; MS275, it gives something else.
    """
    if name in SETS or name not in declared(SPACES):
        found = set_named(name, machine)
        return automatic_space(program, narrowed(machine, found), found.rules, postprocessors_of(found), module=module)
    generator = load(SPACES, name, allowed(), Function)
    assert isinstance(generator, Function)
    made = generator(program, machine)
    if not isinstance(made, Space) or made.program != program:
        raise MsError(
            problem(
                "MS275",
                f"the space generator `{name}` gives no space of {program.name}",
                why=f"it gives {made!r:.60}" if not isinstance(made, Space) else "it gives one of another program",
                help="return `ms.automatic_space(program, target, …)`, or a `Space` of the program that it is given",
            )
        )
    return made
