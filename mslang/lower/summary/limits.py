"""Limits of a machine, checked of a summary before anything is compiled.

Of one program the first limit that it exceeds is reported; of many candidates the conditions are evaluated as arrays.
A machine has the limits that its target describes: those of threads if `Target.has_threads`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from mslang.diagnostics import Diagnostic, TargetError, problem
from mslang.ir.arith import evaluate
from mslang.ir.expr import Binary, Const, Expr, Symbol
from mslang.ir.program import Program
from mslang.ir.visit import walk_expr
from mslang.lower.summary.summarize import summarize
from mslang.lower.summary.values import Nest, Summary
from mslang.lower.symbolic import lower_symbolic
from mslang.target.description import KIB, Target

MAX_CODE = 1 << 17
"""Instructions of one nest where the target has no field `max_code`: more take minutes to compile."""


class Limit(msgspec.Struct, frozen=True):
    """`value` of a nest must be at most `most`.

    What exceeds a `hard` limit cannot run; a soft one is an estimate beyond which registers spill or the code is
    slow to compile, so that a search leaves such candidates out.
    """

    code: str
    nest: str
    what: str
    value: Expr
    most: int
    hard: bool
    help: str

    @property
    def condition(self) -> Expr:
        """What holds where the limit is kept."""
        return Binary("<=", self.value, Const(self.most))


class _Kind(msgspec.Struct, frozen=True):
    """A limit of all nests: the field of the target, and its value where the target has threads but not the field."""

    code: str
    field: str
    most: int | None
    what: str
    value: Callable[[Nest], Expr]
    help: str
    hard: bool = True


_SPLIT = "`split` the loop, and bind the outer part to blockIdx"
_KINDS = (
    _Kind("MS460", "max_threads", None, "threads a block", lambda n: n.threads, _SPLIT),
    _Kind("MS460", "max_block_x", 1024, "threads a block along x", lambda n: n.block[0], _SPLIT),
    _Kind("MS460", "max_block_y", 1024, "threads a block along y", lambda n: n.block[1], _SPLIT),
    _Kind("MS460", "max_block_z", 64, "threads a block along z", lambda n: n.block[2], _SPLIT),
    _Kind(
        "MS461", "shared", None, "bytes of shared memory a block", lambda n: n.shared, "tile the reduction more finely"
    ),
    _Kind(
        "MS462",
        "registers",
        None,
        "registers a thread, by estimate",
        lambda n: n.registers,
        "let a thread compute fewer elements",
        hard=False,
    ),
    _Kind("MS463", "max_vthreads", None, "virtual threads", lambda n: n.vthreads, "`split` by a smaller number"),
    _Kind(
        "MS464",
        "max_vector_bytes",
        16,
        "bytes of a vector access",
        lambda n: n.vector_bytes,
        "`split` the loop before `vectorize`",
    ),
    _Kind("MS465", "max_grid_x", 2**31 - 1, "blocks along x", lambda n: n.grid[0], "`split` the loop of blocks"),
    _Kind("MS465", "max_grid_y", 65535, "blocks along y", lambda n: n.grid[1], "bind the longest loop to blockIdx.x"),
    _Kind("MS465", "max_grid_z", 65535, "blocks along z", lambda n: n.grid[2], "bind the longest loop to blockIdx.x"),
    _Kind(
        "MS466",
        "max_local",
        512 * KIB,
        "bytes of local memory a thread",
        lambda n: n.local,
        "give the buffer another scope, or compute it in smaller tiles",
    ),
)
_CODE = _Kind(
    "MS467",
    "max_code",
    None,
    "instructions, by estimate",
    lambda n: n.code,
    "unroll less: `unroll(max_steps = …)`",
    hard=False,
)


def limits(summary: Summary, target: Target) -> tuple[Limit, ...]:
    """The limits of a machine for each nest, the hard ones first.

    Example:
        >>> [x.code for x in limits(summary, SM_80)][:2]
        ['MS460', 'MS460']
    """
    found = [x for n in summary.nests for x in _of_nest(n, target)]
    return tuple(sorted(found, key=lambda x: not x.hard))


def _of_nest(nest: Nest, target: Target) -> Iterator[Limit]:
    fields: Mapping[str, object] = target.fields
    threads = target.has_threads
    for kind in _KINDS:
        most = fields.get(kind.field, kind.most if threads else None)
        # A CPU's registers are those of vectors: what does not fit is kept in the first-level cache.
        if isinstance(most, int) and (threads or kind.field != "registers"):
            yield _limit(kind, nest, most)
    most = fields.get("max_code", MAX_CODE)
    yield _limit(_CODE, nest, most if isinstance(most, int) else MAX_CODE)


def _limit(kind: _Kind, nest: Nest, most: int) -> Limit:
    return Limit(kind.code, nest.name, kind.what, kind.value(nest), most, kind.hard, kind.help)


def exceeded(summary: Summary, target: Target, *, soft: bool = False) -> Diagnostic | None:
    """The error for the first limit that a concrete program exceeds, or None; `soft`: of the soft limits too.

    Limits of what is known only at the call are not looked at.
    """
    for limit in limits(summary, target):
        if not (limit.hard or soft) or any(isinstance(x, Symbol) for x in walk_expr(limit.value)):
            continue
        value = int(evaluate(limit.value, {}))
        if value > limit.most:
            return problem(
                limit.code,
                f"`{limit.nest}` needs {value} {limit.what}",
                why=f"the target `{target.name}` has at most {limit.most}",
                help=limit.help,
            )
    return None


def require_within_limits(program: Program, target: Target) -> None:
    """Check that a concrete program keeps the hard limits of a target whose threads are limited.

    Raises:
        TargetError: MS460 to MS466, it does not.
        MsError: it cannot be lowered.
    """
    if not target.has_threads:
        return
    found = exceeded(summarize(lower_symbolic(program, target), target), target)
    if found is not None:
        raise TargetError(found)
