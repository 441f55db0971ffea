"""Instructions given as LLVM text, put in place.

The text is a list of LLVM instructions. What it defines, and its labels, get names of their own; `{a}` is a pointer to
the first element of operand `a`, `{a.stride}` (`{a.stride1}`, …) an i64, the distance in elements along dimension 0
(1, …); `{entry}` is the block that it begins in. Lines that begin with `declare` are put beside the function.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mslang.backend.llvm import memory
from mslang.backend.llvm.scope import Scope
from mslang.diagnostics import MsError, problem
from mslang.ir.expr import Const, Expr, Load
from mslang.ir.intrin import Formal
from mslang.lower.kernel import Invoke

if TYPE_CHECKING:
    from mslang.backend.llvm.expression import ExpressionWriter

_DEFINED = re.compile(r"^\s*%([\w.]+)\s*=")
_LABEL = re.compile(r"^\s*([A-Za-z_][\w.]*):\s*$")
_NAME = re.compile(r"%([\w.]+)|\{([A-Za-z_]\w*)(?:\.stride(\d*)|())\}")


def emit(writer: ExpressionWriter, s: Invoke, scope: Scope) -> None:
    """Put an instruction's text in place.

    Raises:
        MsError: MS419, the text names an operand, a stride or a value that it does not have.
    """
    fn = writer.fn
    lines = [line for x in s.text.split("\n") if (line := x.partition(";")[0].rstrip())]
    names = {m[1]: fn.fresh("x") for line in lines for m in (_DEFINED.match(line), _LABEL.match(line)) if m is not None}
    entry = fn.block
    operands = {p.name: (e, rank) for p, e, rank in zip(s.params, s.operands, s.ranks, strict=True)}
    for formal, operand, rank in zip(s.params, s.operands, s.ranks, strict=True):
        if isinstance(operand, Load):
            _require_as_declared(s, formal, operand, scope.memory[operand.buffer].strides, rank)

    def said(m: re.Match[str]) -> str:
        name, param, stride, plain = m.groups()
        if name is not None:
            if name not in names:
                raise _unknown(s, f"the value `%{name}`")
            return f"%{names[name]}"
        if param == "entry" and plain is not None:
            return f"%{entry}"
        operand, rank = operands.get(param, (None, 0))
        if not isinstance(operand, Load):
            raise _unknown(s, f"the operand `{param}`")
        if plain is not None:
            return memory.address(writer, operand, scope)
        dimension = int(stride or 0)
        if dimension >= rank:
            raise _unknown(s, f"dimension {dimension} of `{param}`")
        strides = scope.memory[operand.buffer].strides
        form = writer.affine(strides[len(strides) - rank + dimension], scope)
        if form is None or form.lane:
            raise _unknown(s, f"the stride of `{param}`, which is no number here")
        return writer.scalar(form).ref

    for line in lines:
        label = _LABEL.match(line)
        if label is not None:
            fn.start(names[label[1]])
        elif line.lstrip().startswith("declare "):
            fn.declarations.add(line.strip())
        else:
            fn.do(_NAME.sub(said, line).strip())


def _require_as_declared(s: Invoke, formal: Formal, operand: Load, strides: tuple[Expr, ...], rank: int) -> None:
    """What the text relies on must hold of the memory that an operand has in the end."""
    wanted = formal.strides or (1,)
    have = strides[len(strides) - min(rank, len(wanted)) :] if rank else ()
    off = [(k, n) for k, n in zip(have, wanted[len(wanted) - len(have) :], strict=True) if k != Const(n)]
    if operand.dtype == formal.dtype and not off:
        return
    found = f"its elements are {operand.dtype}" if operand.dtype != formal.dtype else "its rows lie otherwise in memory"
    raise MsError(
        problem(
            "MS419",
            f"`{operand.buffer}` is not what the instruction `{s.name}` takes as `{formal.name}`",
            why=f"{found} than when it became an operand",
            help="change the buffer's type or layout before `tensorize`",
        )
    )


def _unknown(s: Invoke, what: str) -> MsError:
    return MsError(problem("MS419", f"the text of `{s.name}` names {what}, which there is not"))
