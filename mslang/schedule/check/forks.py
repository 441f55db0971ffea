"""Comparisons of a fork's outcome with one of its cases."""

from __future__ import annotations

from collections.abc import Callable

from mslang.diagnostics import Diagnostic
from mslang.schedule.check.kinds import Environment, Outcomes
from mslang.sema.report import unknown
from mslang.syntax import tree


def compared(a: tree.Expr, b: tree.Expr, names: Environment, report: Callable[[Diagnostic], None]) -> tree.Expr | None:
    """Check a comparison of a fork's outcome with one of its cases; returns the fork, None if neither side is one."""
    for side, other in ((a, b), (b, a)):
        bound = names.get(side.name.text) if isinstance(side, tree.Ref) else None
        cases = bound.value.cases if bound is not None else None
        if cases is None:
            continue
        name = other.name.text if isinstance(other, tree.Ref) else getattr(other, "value", None)
        if name not in cases:
            listed = f"its cases are {', '.join(cases)}"
            report(unknown("MS210", other, "case", str(name), cases, why=listed))
        return side
    return None


def outcomes_of(condition: tree.Expr, names: Environment) -> tuple[Outcomes | None, Outcomes | None]:
    """The outcomes of a fork for which a condition holds, and for which it fails; None where it is not about a fork."""
    match condition:
        case tree.Group(items=(inner,)):
            return outcomes_of(inner, names)
        case tree.Unary(op="not", operand=inner):
            holds, fails = outcomes_of(inner, names)
            return fails, holds
        case tree.Binary(op="==" | "!=" as op, left=tree.Ref(name=a), right=tree.Ref(name=b)):
            for name, case in ((a.text, b.text), (b.text, a.text)):
                bound = names.get(name)
                cases = bound.value.cases if bound is not None else None
                if bound is None or bound.span is None or cases is None or case not in cases:
                    continue
                same, other = Outcomes(bound.span, frozenset({case})), Outcomes(bound.span, frozenset(cases) - {case})
                return (same, other) if op == "==" else (other, same)
    return None, None
