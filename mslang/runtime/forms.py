"""Forms of arguments that a kernel accepted before: arrays of the same types, shapes and strides are not checked again.

Most checks of a call depend on nothing else. Whether written arrays overlap others depends on their addresses, and is
asked at each call; what a checking kernel asks of values, or a kernel asks of alignment, is not remembered at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.diagnostics import MsError
from mslang.runtime.dlpack import array_of
from mslang.runtime.packing import Packed
from mslang.runtime.signature import Signature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mslang.runtime.arguments import Arguments

MOST = 256
"""Forms that are kept; a kernel of dynamic sizes may be called in any number of them."""


class Made(msgspec.Struct, frozen=True):
    """An output that a call makes: its place among the parameters, its shape and element type."""

    place: int
    shape: tuple[int, ...]
    dtype: str


class Form(msgspec.Struct, frozen=True):
    """What is known of all arguments of one form.

    `spans` are the bytes from the first to behind the last element of each argument, `written` which arguments are
    written, `made` the outputs that the call makes. `sizes` are the dynamic sizes as words, `returned` the places of
    all outputs among the parameters. `packings` are kept alive, as their identity is part of the form.
    """

    spans: tuple[int, ...]
    written: tuple[int, ...]
    made: tuple[Made, ...]
    sizes: tuple[int, ...]
    returned: tuple[int, ...]
    packings: tuple[object, ...]

    def disjoint(self, addresses: Sequence[int]) -> bool:
        """Whether no written argument shares memory with another."""
        for w in self.written:
            start = addresses[w]
            end = start + self.spans[w]
            for k, other in enumerate(addresses):
                if k != w and other < end and start < other + self.spans[k]:
                    return False
        return True


class Forms:
    """The forms in which one kernel was called. Calls of several threads may ask and learn at once."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._known: dict[Hashable, Form] = {}

    def find(self, key: Hashable) -> Form | None:
        """What is known of arguments with this key."""
        return self._known.get(key)

    def learn(self, key: Hashable, given: Sequence[NDArray[Any] | Packed], accepted: Arguments) -> None:
        """Remember the form of arguments that were accepted, unless more than the form was asked about."""
        arrays = [accepted.arrays[p.name] for p in self._signature.parameters]
        asked = self._signature.checked or self._signature.asks_alignment
        if asked or accepted.staged or not all(x.size and x.flags.aligned for x in arrays):
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[key] = self._form(given, accepted, arrays)

    def _form(
        self, given: Sequence[NDArray[Any] | Packed], accepted: Arguments, arrays: Sequence[NDArray[Any]]
    ) -> Form:
        parameters = list(enumerate(self._signature.parameters))
        there = [p for _, p in parameters if p.name in accepted.given]
        return Form(
            tuple(_span(accepted.arrays[p.name]) for p in there),
            tuple(k for k, p in enumerate(there) if p.direction != "in"),
            tuple(Made(k, arrays[k].shape, p.dtype) for k, p in parameters if p.name not in accepted.given),
            tuple(accepted.sizes[s.text] for s in self._signature.dynamic),
            tuple(k for k, p in parameters if p.direction != "in"),
            tuple(x.packing for x in given if isinstance(x, Packed)),
        )


def in_place(given: Sequence[object]) -> list[NDArray[Any] | Packed] | None:
    """Arguments as arrays, tensors of other libraries too, none copied; None where one is neither."""
    import numpy as np

    found: list[NDArray[Any] | Packed] = []
    for x in given:
        if isinstance(x, (np.ndarray, Packed)):
            found.append(x)
        elif hasattr(x, "__dlpack__"):
            try:
                found.append(array_of("", x))
            except MsError:
                return None
        else:
            return None
    return found


def key_of(given: Sequence[NDArray[Any] | Packed]) -> Hashable:
    """What arguments have in common that are accepted alike."""
    return tuple(
        [
            (id(x.packing), x.shape, x.array.dtype, x.array.shape, x.array.strides, x.array.flags.num)
            if isinstance(x, Packed)
            else (x.dtype, x.shape, x.strides, x.flags.num)
            for x in given
        ]
    )


def _span(array: NDArray[Any]) -> int:
    """Bytes from the first to behind the last element. Accepted arrays have no negative strides."""
    return int(sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True) if n > 1)) + array.itemsize
