"""The initial value of a reduction whose block has no `init`: inferred, or refused where it would be a guess."""

from __future__ import annotations

from mslang.diagnostics import Diagnostic, Note
from mslang.ir.initial import inferred_init
from mslang.ir.program import Block, Stmt, Store
from mslang.ir.reduction import update_of
from mslang.ir.visit import walk
from mslang.sema.declare import Declarations
from mslang.sema.report import fault
from mslang.sema.scope import BufferName, Scope
from mslang.syntax import tree


def start_of(b: Block, declared: Declarations, scope: Scope) -> tuple[Stmt, ...] | None:
    """The init that is inferred for a block: the identity for each update of a buffer that no earlier block writes."""
    stored = {s.buffer for s in walk(b.body) if isinstance(s, Store)}
    started = frozenset(n for n in stored if _given(n, scope) or declared.writer(n, scope) is not None)
    return inferred_init(b.body, b.axes, started)


def _given(name: str, scope: Scope) -> bool:
    meaning = scope.get(name)
    return isinstance(meaning, BufferName) and meaning.direction in ("in", "inout")


def init_fault(b: Block, at: tree.Name, around: str | None, declared: Declarations, scope: Scope) -> Diagnostic | None:
    """What is wrong with leaving the init of a reduction to inference, if anything.

    Args:
        b: the block, with the init inferred for it.
        at: the block's name in the text.
        around: the innermost block around it that has a reduction axis.
        declared: what is written before it.
        scope: the scope of its body.
    """
    if not any(a.kind == "reduce" for a in b.axes):
        return None
    inferred = {s.buffer for s in b.init or () if isinstance(s, Store)}
    for s in walk(b.body, into_blocks=False):
        if not isinstance(s, Store) or update_of(s) is None or (_given(s.buffer, scope) and s.buffer not in inferred):
            continue
        if s.buffer not in inferred:
            return _missing(b, s, at, declared, scope)
        if around is not None:
            return fault(
                "MS114",
                at,
                f"the init of block `{b.name}` cannot be inferred",
                why=f"it would run again for each reduction step of the enclosing block `{around}`",
                help=f"write the `init {{ … }}` in `{around}`, and `init {{}}` here",
            )
    return None


def _missing(b: Block, s: Store, at: tree.Name, declared: Declarations, scope: Scope) -> Diagnostic:
    before = declared.writer(s.buffer, scope)
    if before is None:
        return fault(
            "MS114",
            at,
            f"the init of block `{b.name}` cannot be inferred",
            why=f"the update of `{s.buffer}` stands in a branch or a loop, or is not indexed by spatial axes alone",
            help="write `init { … }`, or `init {}` for none",
        )
    return fault(
        "MS114",
        at,
        f"block `{b.name}` updates `{s.buffer}`, which is already written, without an `init`",
        why="only the first writer of a buffer gets an inferred init",
        notes=(Note("written here", before),),
        help="write `init {}` to continue from the values in the buffer, or `init { … }` to start over",
    )


def written_by_init(s: tree.Block) -> tuple[str, ...]:
    """The buffers that a block's `init` stores to, read off its text."""
    stored = (x for c in s.body.statements if isinstance(c, tree.Init) for x in c.body.statements)
    return tuple(
        x.target.base.name.text
        for x in stored
        if isinstance(x, tree.Assign) and isinstance(x.target, tree.Index) and isinstance(x.target.base, tree.Ref)
    )
