"""Implementations of instructions in LLVM text, put in place.

The text is a list of LLVM instructions. What it defines, and its labels, get names of their own; `{a}` is a pointer to
the first element of operand `a`, `{a.stride}` (`{a.stride1}`, …) an i64, the distance in elements along dimension 0
(1, …); `{entry}` is the block that it begins in. Lines that begin with `declare` are put outside of the function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from mslang.backend.llvm import memory
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.scope import Scope
from mslang.diagnostics import MsError, problem
from mslang.ir.expr import Load
from mslang.kernel.nodes import Invoke
from mslang.lower.instructions import require_as_declared
from mslang.lower.substitute import LANE

if TYPE_CHECKING:
    from mslang.backend.llvm.expression import ExpressionWriter

_DEFINED = re.compile(r"^\s*%([\w.]+)\s*=")
_LABEL = re.compile(r"^\s*([A-Za-z_][\w.]*):\s*$")
_NAME = re.compile(r"%([\w.]+)|\{([A-Za-z_]\w*)(?:\.stride(\d*)|())\}")
_ENTRY = "{entry}"
"""The label of the block that the text begins in."""

Operand = Callable[[str, int | None], str]
"""What stands for an operand: its pointer, or the stride of one of its dimensions."""


def emit(writer: ExpressionWriter, s: Invoke, scope: Scope) -> None:
    """Put an instruction's text in place.

    Raises:
        MsError: MS419, the text names an operand, a stride or a value that it does not have.
    """
    operands = {p.name: (e, rank) for p, e, rank in zip(s.params, s.operands, s.ranks, strict=True)}
    for formal, operand, rank in zip(s.params, s.operands, s.ranks, strict=True):
        if isinstance(operand, Load):
            require_as_declared(s, formal, operand, scope.memory[operand.buffer].strides, rank)

    def named(param: str, dimension: int | None) -> str:
        e, rank = operands.get(param, (None, 0))
        if not isinstance(e, Load):
            raise unknown(s.name, f"the operand `{param}`")
        if dimension is None:
            return memory.address(writer, e, scope)
        if dimension >= rank:
            raise unknown(s.name, f"dimension {dimension} of `{param}`")
        strides = scope.memory[e.buffer].strides
        form = writer.affine(strides[len(strides) - rank + dimension], scope)
        if form is None or LANE in form.terms:
            raise unknown(s.name, f"the stride of `{param}`, which differs between lanes")
        return writer.scalar(form).ref

    put(writer.fn, s.name, s.text, named)


def put(fn: FunctionWriter, name: str, text: str, operand: Operand) -> None:
    """Write the text of the instruction `name` into a function.

    Raises:
        MsError: MS419, the text names a value that it does not define.
    """
    lines = [line for x in text.split("\n") if (line := x.partition(";")[0].rstrip())]
    names = {m[1]: fn.fresh("x") for line in lines for m in (_DEFINED.match(line), _LABEL.match(line)) if m is not None}
    entry = fn.block
    # In front of all of the text: a label need not be reached by way of another whose lines name the same operand.
    operands = {
        m[0]: operand(m[2], None if m[4] is not None else int(m[3] or 0))
        for line in lines
        for m in _NAME.finditer(line)
        if m[2] is not None and m[0] != _ENTRY
    }

    def resolved(m: re.Match[str]) -> str:
        value = m[1]
        if value is None:
            return f"%{entry}" if m[0] == _ENTRY else operands[m[0]]
        if value not in names:
            raise unknown(name, f"the value `%{value}`")
        return f"%{names[value]}"

    for line in lines:
        label = _LABEL.match(line)
        if label is not None:
            fn.start(names[label[1]])
        elif line.lstrip().startswith("declare "):
            fn.declarations.add(line.strip())
        else:
            fn.do(_NAME.sub(resolved, line).strip())


def unknown(name: str, what: str) -> MsError:
    """The error for a name in the text of an instruction."""
    return MsError(problem("MS419", f"the text of `{name}` names {what}, which does not exist"))
