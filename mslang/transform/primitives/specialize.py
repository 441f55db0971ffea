"""The primitive `specialize`: a nest twice, once where a condition holds and once where it does not."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.dtype import INDEX
from mslang.ir.expr import (
    ONE,
    ZERO,
    Binary,
    Const,
    DynamicRange,
    Expr,
    Load,
    Symbol,
    Unary,
    Var,
    children,
    dtype_of,
    with_children,
)
from mslang.ir.print import print_expr
from mslang.ir.program import Block, For, If, Program, Range, Stmt
from mslang.ir.visit import (
    Path,
    conjunction,
    conjuncts,
    free_vars,
    fresh,
    loads_of,
    map_stmt_exprs,
    substitute,
    walk_expr,
)
from mslang.transform.analysis.position import loop_at, loop_path, loop_range, ranges_above, taken_names
from mslang.transform.kinds import Condition
from mslang.transform.outcome import Gone, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.cloning import (
    cloned,
    divided_by,
    going_on,
    private_buffers,
    require_still_concurrent,
    with_buffers,
)
from mslang.transform.rewriting.rewrite import put, substitute_loops

_OPPOSITE = {"<": ">=", ">=": "<", "<=": ">", ">": "<=", "==": "!=", "!=": "=="}


@primitive(family="loops", gives=(LoopRef, LoopRef), consumes=("loop",))
def specialize(program: Program, loop: LoopRef, condition: Condition) -> Outcome:
    """Make two copies of a nest: one that runs where a condition holds, and one that runs where it does not.

    The condition is about sizes known at the call, decisions, and the loops around, each given by a handle
    (`mm.j.specialize(mm.i < 4)`). In the first copy it is taken for granted: predicates that follow from it go, and a
    size of which it says that it is a multiple (`M % 16 == 0`), or what it is (`M == 64`), is written so, which spares
    a later `split` its guard.

    The new loops are named `i_then` and `i_else`, and are returned. The first copy keeps the names of the loops and
    blocks below, those of the second end in `_else`, and so does a buffer that each iteration has to itself.

    Before:
        for i in 0..n {
            block b[x: n = i] { B[x] = A[x] }
        }

    After:
        # let fast, slow = i.specialize(n % 16 == 0)
        if n % 16 == 0 {
            for fast in 0..n // 16 * 16 {
                block b[x: n // 16 * 16 = fast] { B[x] = A[x] }
            }
        } else {
            for slow in 0..n {
                block b_else[x: n = slow] { B[x] = A[x] }
            }
        }

    Rejects:
        - a condition on data, on the loop itself or those inside, or on sizes that the program has not
        - a condition that divides by what may be 0
        - a concurrent loop, around it or in it, if its iterations would share a buffer

    Source: not in TVM
    """
    path = loop_path(program, loop, "specialize")
    old = loop_at(path)
    _require_known(program, path, condition)
    taken = taken_names(program)
    names = [fresh(f"{old.var}_{k}", taken) for k in ("then", "else")]
    taken.update(names)
    own, divided = private_buffers(program, path), divided_by(path, free_vars(condition))
    given = conjuncts(condition)
    against = (_negated(condition),)
    then, other = (
        replace(made, body=going_on(program, made.body, divided, {**ranges, made.var: loop_range(made)}))
        for facts in (given, against)
        for ranges in (_narrowed(ranges_above(path), facts),)
        for made in (_assuming(old, facts, ranges),)
    )
    copy = cloned(other.body, own, "else", taken)
    branches = [
        replace(s, var=n, body=substitute_loops(body, {old.var: Var(n)}, None))
        for s, n, body in ((then, names[0], then.body), (other, names[1], copy.body))
    ]
    made = tuple(LoopRef(n) for n in names)
    result = with_buffers(put(program, path, If(condition, (branches[0],), (branches[1],))), path, copy.buffers)
    require_still_concurrent(result, (*(s for s in path[:-1] if isinstance(s, For)), *branches), "specialize")
    return Outcome(result, made, {loop: Gone("specialize", made)})


def _require_known(program: Program, path: Path, condition: Expr) -> None:
    loop = loop_at(path)
    if dtype_of(condition) != "bool":
        raise refuse("MS358", "specialize", "the argument is not a condition", help="compare something: `n % 16 == 0`")
    if any(True for _ in loads_of(condition)):
        raise refuse(
            "MS358",
            "specialize",
            "the condition depends on data",
            why="what a buffer holds is not known when the copies are told apart",
        )
    hidden = sorted(free_vars(condition) - ranges_above(path).keys())
    if hidden:
        raise refuse(
            "MS358",
            "specialize",
            f"the condition depends on `{hidden[0]}`",
            why=f"it is decided before loop `{loop.var}`, where only the enclosing loops are known",
        )
    ranges = ranges_above(path)
    for x in walk_expr(condition):
        if isinstance(x, Binary) and x.op in ("//", "%") and not _is_never_zero(x.right, ranges):
            raise refuse(
                "MS358",
                "specialize",
                f"the condition divides by `{print_expr(x.right)}`, which may be 0",
                help="compare without a division, or divide by a positive size",
            )
    known = {s.name for s in program.dynamic if isinstance(s, Symbol)}
    sizes = {x.name for x in walk_expr(condition) if isinstance(x, Symbol) and isinstance(x.domain, DynamicRange)}
    if not sizes <= known:
        raise refuse(
            "MS358",
            "specialize",
            f"the program has no size `{min(sizes - known)}`",
            help="a condition may name sizes of the program, decisions and enclosing loops",
        )


def _is_never_zero(e: Expr, ranges: Mapping[str, Range]) -> bool:
    return arith.proved(Binary("<=", ONE, e), ranges) or arith.proved(Binary("<", e, ZERO), ranges)


# ------------------------------------------------------------------ what follows from a condition
def _negated(condition: Expr) -> Expr:
    match condition:
        case Binary(op=op, left=a, right=b) if op in _OPPOSITE:
            return Binary(_OPPOSITE[op], a, b)
        case Unary("not", x):
            return x
    return Unary("not", condition)


def _assuming(loop: For, given: tuple[Expr, ...], ranges: Mapping[str, Range]) -> For:
    """The loop where conditions hold: sizes rewritten by what they say, predicates dropped that follow."""
    sizes = dict(x for c in given for x in _sizes(c))

    def written(e: Expr) -> Expr:
        if not any(isinstance(x, Symbol) and x in sizes for x in walk_expr(e)):
            return e
        match e:
            case Symbol():
                return sizes[e]
            case Load(buffer=b, indices=xs, dtype=d):  # as the indices of a store, which stand alone
                return Load(b, tuple(written(i) for i in xs), d)
        made = with_children(e, tuple(written(x) for x in children(e)))
        return arith.simplify(made) if dtype_of(made) == INDEX and not any(True for _ in loads_of(made)) else made

    made = map_stmt_exprs(loop, written) if sizes else loop
    assert isinstance(made, For)
    return replace(made, body=tuple(_without(s, given, {**ranges, made.var: loop_range(made)}) for s in made.body))


def _sizes(condition: Expr) -> list[tuple[Symbol, Expr]]:
    match condition:
        case Binary("==", Binary("%", Symbol() as s, Const() as by), Const(value=0)):
            return [(s, Binary("*", Binary("//", s, by), by))]
        case Binary("==", Symbol() as s, Const() as value):
            return [(s, value)]
    return []


def _without(s: Stmt, given: tuple[Expr, ...], ranges: Mapping[str, Range]) -> Stmt:
    """A statement without the predicates of its blocks that hold."""
    match s:
        case For():
            inside = {**ranges, s.var: loop_range(s)}
            return replace(s, body=tuple(_without(x, given, inside) for x in s.body))
        case If():
            return replace(
                s,
                then=tuple(_without(x, given, ranges) for x in s.then),
                otherwise=tuple(_without(x, given, ranges) for x in s.otherwise),
            )
        case Block():
            values = {a.name: a.binding for a in s.axes}
            left = [
                c
                for c in conjuncts(s.predicate)
                if (c not in given or free_vars(c) & values.keys()) and not arith.proved(substitute(c, values), ranges)
            ]
            return replace(s, predicate=conjunction(tuple(left)))
    return s


def _narrowed(ranges: Mapping[str, Range], given: tuple[Expr, ...]) -> dict[str, Range]:
    """The ranges of the loops around, where conditions hold."""
    found = dict(ranges)
    for c in given:
        match c:
            case Binary(op=op, left=Var(name=v), right=bound) if v in found and not free_vars(bound):
                found[v] = _cut(found[v], op, bound)
    return found


def _cut(r: Range, op: str, bound: Expr) -> Range:
    end = arith.add(r.start, r.extent)
    match op:
        case "<" | "<=":
            stop = arith.minimum(end, bound if op == "<" else arith.add(bound, ONE))
            return Range(r.start, arith.maximum(ZERO, arith.sub(stop, r.start)))
        case ">" | ">=":
            start = arith.maximum(r.start, bound if op == ">=" else arith.add(bound, ONE))
            return Range(start, arith.maximum(ZERO, arith.sub(end, start)))
        case "==":
            return Range(bound, ONE)
    return r
