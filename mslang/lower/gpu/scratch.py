"""Scratch memory of instructions: what a text declares by `#shared` becomes a buffer in shared memory, in which each
thread that runs the text has elements of its own.

A text runs from its start to its end in one thread after another text of that thread, so that all texts of a launch
that declare the same share a buffer.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from mslang.diagnostics import MsError, problem
from mslang.ir.expr import ZERO, Const, Load, Var
from mslang.ir.intrin import Formal, Scratch, scratch_of
from mslang.ir.program import Buffer
from mslang.ir.visit import fresh
from mslang.kernel import Invoke
from mslang.lower.gpu.axes import THREAD_AXES, Extents
from mslang.lower.layout import row_major


class ScratchBuffers:
    """The buffers made so far for the instructions of one launch."""

    def __init__(self, extents: Extents, taken: Collection[str]) -> None:
        """Args:
        extents: those of the axes of the launch.
        taken: names that no buffer may get.
        """
        self._extents, self._taken = extents, set(taken)
        self._made: dict[tuple[Scratch, tuple[str, ...]], Buffer] = {}

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All of them."""
        return tuple(self._made.values())

    def given(self, s: Invoke, held: frozenset[str]) -> Invoke:
        """An instruction with its scratch memory as operands more; only threads of index 0 along the axes `held` run
        it.

        Raises:
            MsError: MS441, scratch memory is called as an operand is.
        """
        axes = tuple(a for a in reversed(THREAD_AXES) if a in self._extents and a not in held)
        for wanted in scratch_of(s.text):
            if any(p.name == wanted.name for p in s.params):
                raise MsError(
                    problem(
                        "MS441",
                        f"the text of `{s.name}` declares `#shared {wanted.name}`, and `{wanted.name}` is an operand",
                        help="give one of them another name",
                    )
                )
            b = self._buffer(wanted, axes)
            element = Load(b.name, (*(Var(a) for a in axes), ZERO), b.dtype)
            s = replace(
                s,
                params=(*s.params, Formal(wanted.name, wanted.dtype)),
                ranks=(*s.ranks, 1),
                operands=(*s.operands, element),
            )
        return s

    def _buffer(self, wanted: Scratch, axes: tuple[str, ...]) -> Buffer:
        found = self._made.get((wanted, axes))
        if found is None:
            name = fresh(wanted.name, self._taken)
            self._taken.add(name)
            shape = (*(self._extents[a] for a in axes), Const(wanted.count))
            # with strides, as it keeps its size: operands show the first element alone
            found = Buffer(name, wanted.dtype, shape, "shared", row_major(shape))
            self._made[wanted, axes] = found
        return found
