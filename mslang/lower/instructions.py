"""The text of an intrinsic for a target, if it has one, and what it relies on."""

from __future__ import annotations

import re
from typing import NamedTuple

from mslang.diagnostics import MsError, TargetError, problem
from mslang.ir.arith.operations import SCALAR
from mslang.ir.expr import Const, Expr, Load
from mslang.ir.intrin import Formal, Guard, Recorded
from mslang.kernel.nodes import Invoke
from mslang.target.description import Target


class InstructionTexts(NamedTuple):
    """Which texts implement instructions: those of a back end (`impl NAME`), or, without a name, of any, first of the
    one that is called as the target's kind.

    `required`: an instruction without such a text is refused; else the body of its block is compiled.
    """

    back_end: str | None = None
    required: bool = True


LLVM, CUDA = InstructionTexts("llvm"), InstructionTexts("cuda")

_COMPARISON = re.compile(r"([A-Za-z_]\w*) (==|!=|<=|>=|<|>) (\S+)")


def text_for(record: Recorded, target: Target, texts: InstructionTexts = LLVM) -> str | None:
    """The text that is an intrinsic on a target; None where the body of the block is compiled in its place.

    Raises:
        TargetError: MS417, nothing implements it for the back end; MS418, the target lacks it.
    """
    lacking = None if record.guard is None else why_lacking(record.guard, target)
    name = texts.back_end
    if name is None:
        name = target.kind if target.kind in record.texts else next(iter(record.texts), None)
    text = None if name is None else record.texts.get(name)
    if lacking is None and text is not None:
        return text
    if record.emulated or (lacking is None and not texts.required):
        return None
    if lacking is not None:
        raise TargetError(
            problem(
                "MS418",
                f"the target `{target.name}` does not have the instruction `{record.name}`",
                why=lacking,
                help="schedule for a target that has it, or give the intrinsic an implementation as a program too; "
                "interpreting it works everywhere",
            )
        )
    raise TargetError(
        problem(
            "MS417",
            f"nothing implements the instruction `{record.name}` for the back end `{name}`",
            why=f"there are implementations for: {', '.join(record.texts) or 'none'}",
            help=f'give the intrinsic an `impl {name} """…"""`, or an implementation as a program',
        )
    )


def why_lacking(guard: Guard, target: Target) -> str | None:
    """The condition of an intrinsic that a target does not meet; None if it meets all."""
    if guard.kind not in (target.kind, target.name):
        return f"it is for `{guard.kind}`; the target is a {target.kind}"
    return next((f"it needs `{c}`" for c in guard.conditions if not _holds(c, target)), None)


def _holds(condition: str, target: Target) -> bool:
    found = _COMPARISON.fullmatch(condition)
    if found is None:
        return target.has(condition) or target.fields.get(condition) is True
    name, op, number = found.groups()
    value = _field(target, name)
    return isinstance(value, int | float) and bool(SCALAR[op](value, float(number)))


def _field(target: Target, name: str) -> object:
    """A field of a target; `sm` is the number in its architecture."""
    value = target.fields.get(name)
    if value is None and name == "sm":
        digits = "".join(c for c in str(target.fields.get("arch", "")) if c.isdigit())
        return int(digits) if digits else None
    return value


def require_as_declared(s: Invoke, formal: Formal, operand: Load, strides: tuple[Expr, ...], rank: int) -> None:
    """Check that what a text relies on holds of the memory that an operand has in the end.

    Args:
        s: the instruction.
        formal: what its text relies on of the operand.
        operand: the operand's first element.
        strides: those of the operand's buffer.
        rank: how many of the buffer's last dimensions the operand has.

    Raises:
        MsError: MS419, the element type or a stride is another one.
    """
    wanted = formal.strides or (1,)
    have = strides[len(strides) - min(rank, len(wanted)) :] if rank else ()
    off = [(k, n) for k, n in zip(have, wanted[len(wanted) - len(have) :], strict=True) if k != Const(n)]
    if operand.dtype == formal.dtype and not off:
        return
    found = f"its elements are {operand.dtype}" if operand.dtype != formal.dtype else "its strides differ"
    raise MsError(
        problem(
            "MS419",
            f"`{operand.buffer}` is not what the instruction `{s.name}` takes as `{formal.name}`",
            why=f"{found} than when it became an operand",
            help="change the buffer's type or layout before `tensorize`",
        )
    )
