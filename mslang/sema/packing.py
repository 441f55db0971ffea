"""The layout of a packed parameter: `W: f32[4, 2] = packed([8], fn (i) -> [i // 2, i % 2], pad = 0.0)`."""

from __future__ import annotations

from mslang.ir.dtype import INDEX
from mslang.ir.expr import Call, Cast, Const, Expr, Load, Var
from mslang.ir.program import Buffer, Packing
from mslang.ir.text import PACKED, print_expr
from mslang.ir.visit import walk_expr
from mslang.sema.expressions import index, typed
from mslang.sema.report import failure
from mslang.sema.scope import Scope, Variable
from mslang.syntax import tree

_HELP = f"for example `W: f32[4, 2] = {PACKED}([8], fn (i) -> [i // 2, i % 2], pad = 0.0)`"


def packing(e: tree.Expr, buffer: Buffer, scope: Scope) -> Packing:
    """What stands after the `=` of a parameter of a program.

    Raises:
        MsError: MS110, it is not a packing; MS105, it is one of another number of indices.
    """
    match e:
        case tree.Call(
            callee=tree.Ref(name=tree.Name(text=word)),
            args=(tree.Arg(value=tree.List(items=shape)), tree.Arg(value=tree.IndexMap() as found), *rest),
        ) if word == PACKED and all(a.name is not None and a.name.text == "pad" for a in rest) and len(rest) <= 1:
            params = tuple(p.text for p in found.params)
            if (len(params), len(found.results)) != (len(shape), len(buffer.shape)):
                raise failure(
                    "MS105",
                    found,
                    f"`{buffer.name}` has {len(buffer.shape)} dimensions and is packed from {len(shape)}, "
                    f"but the map takes {len(params)} indices and gives {len(found.results)}",
                )
            inside = scope
            for p in found.params:
                inside = inside.with_name(p.text, Variable(Var(p.text, INDEX), "index"), p.span)
            results = tuple(index(x, inside) for x in found.results)
            _require_arithmetic(found, results)
            pad = typed(rest[0].value, scope, buffer.dtype) if rest else None
            if pad is not None and not isinstance(pad, Const):
                raise failure("MS113", rest[0].value, "the padding is a number that is known here", help=_HELP)
            return Packing(tuple(index(x, scope) for x in shape), params, results, pad)
    raise failure("MS110", e, "a parameter of a program has no default", why=f"it may be `{PACKED}`", help=_HELP)


def _require_arithmetic(at: tree.IndexMap, results: tuple[Expr, ...]) -> None:
    for e in results:
        strange = next((x for x in walk_expr(e) if isinstance(x, Load | Call | Cast)), None)
        if strange is not None:
            raise failure(
                "MS110",
                at,
                f"the map of a packing cannot hold `{print_expr(strange)}`",
                why="arrays are packed before the kernel runs, by arithmetic of their indices",
                help="use `+`, `-`, `*`, `//`, `%`, `min`, `max`, comparisons and `select`",
            )


__all__ = ["packing"]
