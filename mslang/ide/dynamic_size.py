"""Sizes known only at the call, `M: dyn(1..4096, multiple = 8)`: completion, signature help and hover."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from mslang.diagnostics import Span
from mslang.ir.buckets import buckets_of, dynamic_sizes
from mslang.ir.expr import DynamicRange
from mslang.ir.program import Program
from mslang.ops.signature import Group, Kind, Param, Signature
from mslang.sema.sizes import GREATEST
from mslang.syntax import tree
from mslang.syntax.lexer import Token

DYN = Signature(
    "dyn",
    Group.FUNCTION,
    (
        Param("range", Kind.SIZES, f"1..{GREATEST}"),
        Param("multiple", Kind.INT, 1),
        Param("buckets", Kind.SIZES, None),
    ),
)
"""How `dyn` is called."""

MEANING = MappingProxyType(
    {
        "dyn": "A size known only when the kernel is called. Schedules must be legal for every size of its range.",
        "range": "The smallest and the largest size, both included.",
        "multiple": "Every size is a multiple of this number.",
        "buckets": "The largest sizes of the parts of the range that are tuned separately, ascending, without "
        "the last. By default the parts end at powers of two.",
    }
)
"""What `dyn` and its arguments mean."""


def declares_size(before: Sequence[Token]) -> bool:
    """Whether tokens end where `dyn` declares a size: at the colon of `M: dyn`."""
    return len(before) >= 2 and before[-1].text == "dyn" and before[-2].kind == "COLON"


def explained(nodes: Sequence[tree.Node], offset: int) -> tuple[Span, str] | None:
    """The word at an offset of an item, if it is `dyn` or the name of an argument of it, and its meaning as Markdown.

    Args:
        nodes: the nodes at the offset, outermost first.
        offset: counts from the start of the item, as the nodes' spans do.
    """
    size = next((n for n in nodes if isinstance(n, tree.SizeParam)), None)
    match None if size is None else size.kind:
        case tree.Ref(name=tree.Name(text="dyn") as name):
            names = [name]
        case tree.Call(callee=tree.Ref(name=tree.Name(text="dyn") as name), args=args):
            names = [name, *(a.name for a in args if a.name is not None)]
        case _:
            return None
    word = next((n for n in names if n.span.start <= offset <= n.span.end and n.text in MEANING), None)
    if word is None:
        return None
    return word.span, f"```mslang\n{DYN.text}\n```\n\n`{word.text}`: {MEANING[word.text]}"


def size_facts(program: Program, name: str) -> str:
    """The range of a dynamic size, and the parts of it that are tuned separately; "" of any other size."""
    size = next((s for s in dynamic_sizes(program) if s.name == name), None)
    if size is None or not isinstance(size.domain, DynamicRange):
        return ""
    domain = size.domain
    multiple = f", a multiple of {domain.multiple}" if domain.multiple > 1 else ""
    parts = dict.fromkeys(dict(b.ranges)[name] for b in buckets_of(program))
    ranges = ", ".join(f"{r.lo}..{r.hi}" if r.hi > r.lo else str(r.lo) for r in parts)
    return f"size `{name}`, known only at the call: {domain.lo}..{domain.hi}{multiple}\n\ntuned separately: {ranges}"
