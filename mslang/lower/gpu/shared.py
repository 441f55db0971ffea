"""Shared memory: allocated where a block begins, static or dynamic, and laid out.

A kernel may declare 48 KiB of shared memory. Where buffers of scope `shared` exceed that, all of them become
`shared.dyn`: memory that the launch reserves. Buffers do not overlap: barriers know buffers by their names.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mslang.diagnostics import TargetError, problem
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const
from mslang.ir.program import Buffer
from mslang.kernel import Allocate, Body, Function, Module, Stmt
from mslang.kernel.visit import bodies, with_bodies
from mslang.lower.gpu.axes import BLOCK_SHARED, launch_of
from mslang.lower.gpu.memory import ALIGN, DYNAMIC, DYNAMIC_ALIGN, elements
from mslang.target.description import Target

STATIC_LIMIT = 48 * 1024
"""Bytes of shared memory that a kernel may declare; more is reserved at the launch."""


def shared(module: Module, target: Target) -> Module:
    """The module with shared memory allocated where a block begins, and dynamic shared memory laid out.

    The `offset` of a buffer in dynamic shared memory counts its elements from where that of the launch begins.

    Raises:
        TargetError: MS461, a function's shared memory, each buffer aligned, is more than the GPU has.
        MsError: MS440, the size of a buffer is known only when the kernel is called.
    """
    return replace(module, functions=tuple(_shared(f, target) for f in module.functions))


def _shared(f: Function, target: Target) -> Function:
    found: list[Buffer] = []
    body = _without(f.body, found)
    static = [b for b in found if b.scope == "shared"]
    declared = sum(map(_padded, static))
    places, top = _places([b for b in reversed(found) if b.scope == DYNAMIC], 0, ALIGN)
    if declared > STATIC_LIMIT:
        moved, top = _places(static, top, DYNAMIC_ALIGN)
        places, declared = {**places, **moved}, 0
    _require_room(f.name, declared + top, target)
    for b in reversed(found):
        if b.name in places:
            b = replace(b, scope=DYNAMIC, offset=Const(places[b.name] // size_of(b.dtype)))
        body = (Allocate(b, body),)
    if not top:
        return replace(f, body=body)
    return replace(f, body=body, launch=replace(f.launch or launch_of({}), dynamic_shared=Const(top)))


def _without(body: Body, found: list[Buffer]) -> Body:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Allocate) and s.buffer.scope in BLOCK_SHARED:
            found.append(s.buffer)
            out.extend(_without(s.body, found))
        else:
            out.append(with_bodies(s, tuple(_without(b, found) for b in bodies(s))))
    return tuple(out)


def _places(buffers: Sequence[Buffer], top: int, least: int) -> tuple[dict[str, int], int]:
    """The byte at which each buffer begins, one after another from `top` on, and where the last one ends."""
    found: dict[str, int] = {}
    for b in buffers:
        found[b.name] = _up(top, max(b.align or 1, least))
        top = found[b.name] + _padded(b)
    return found, top


def _padded(b: Buffer) -> int:
    return _up(elements(b) * size_of(b.dtype), ALIGN)


def _up(n: int, step: int) -> int:
    return -(-n // step) * step


def _require_room(kernel: str, used: int, target: Target) -> None:
    """Check that the shared buffers of a kernel fit, each at a multiple of its alignment.

    The limits of the summary count the bytes of the buffers alone, which is all that decisions determine.
    """
    most = target.fields.get("shared")
    if isinstance(most, int) and used > most:
        raise TargetError(
            problem(
                "MS461",
                f"`{kernel}` needs {used} bytes of shared memory a block, its buffers aligned",
                why=f"the target `{target.name}` has at most {most}",
                help="tile the reduction more finely",
            )
        )
