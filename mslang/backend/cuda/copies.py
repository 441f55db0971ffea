"""Copies from global to shared memory that run in the background (`cp.async`), as lowering makes them of pipelines."""

from __future__ import annotations

from mslang.backend.cuda.expression import ExpressionPrinter
from mslang.backend.cuda.scope import Scope
from mslang.diagnostics import MsError, problem
from mslang.ir.expr import Call, Const, Load

COPIES = frozenset({"cp_async", "cp_async_commit", "cp_async_wait"})
"""The calls: a copy of some bytes, the end of a group of copies, waiting until few enough groups are under way."""

WIDTHS = (4, 8, 16)
"""The bytes that a copy may have."""


def copy(printer: ExpressionPrinter, call: Call, scope: Scope) -> str:
    """One of these calls as a statement.

    Raises:
        MsError: MS440, the hardware copies no such number of bytes.
    """
    match call:
        case Call(name="cp_async", args=(Load() as to, Load() as source, Const(value=int() as width))) if (
            width in WIDTHS
        ):
            addresses = [printer.address(x.buffer, x.indices, scope) for x in (to, source)]
            name = "ms_copy_async_wide" if width == 16 else "ms_copy_async"
            text = printer.used.call(name, *addresses)
            return f"{text if width == 16 else text.replace('(', f'<{width}>(', 1)};"
        case Call(name="cp_async_commit"):
            return f"{printer.used.call('ms_copy_commit')};"
        case Call(name="cp_async_wait", args=(Const(value=groups),)):
            printer.used.functions.add("ms_copy_wait")
            return f"ms_copy_wait<{groups}>();"
    raise MsError(
        problem(
            "MS440",
            f"`{call.name}` of these operands cannot be written in CUDA C",
            why=f"a copy in the background takes {', '.join(map(str, WIDTHS))} bytes from global to shared memory",
        )
    )
