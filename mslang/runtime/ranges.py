"""Whether an array holds what its parameter declares: `at: i32[N] in 0..V sorted`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Bounds(NamedTuple):
    """A declared range, as numbers: from `low` up to, not including, `high`."""

    low: float
    high: float
    sorted: bool = False
    unique: bool = False

    @property
    def text(self) -> str:
        """How it is declared: `0..8 sorted`."""
        return f"{self.low}..{self.high}{' sorted' if self.sorted else ''}{' unique' if self.unique else ''}"


def violation(name: str, array: NDArray[Any], bounds: Bounds) -> str | None:
    """The first element that breaks a declared range, as a sentence; None if there is none. NaN is in no range."""
    import numpy as np

    def at(place: NDArray[Any]) -> str:
        return f"{name}[{', '.join(str(int(k)) for k in place)}] is {array[tuple(place)]}"

    outside = ~((array >= bounds.low) & (array < bounds.high))
    if outside.any():
        return f"{at(np.argwhere(outside)[0])}, outside of {bounds.low}..{bounds.high}"
    if bounds.sorted and array.ndim:
        falls = array[..., 1:] < array[..., :-1]
        if falls.any():
            place = np.argwhere(falls)[0]
            place[-1] += 1
            return f"{at(place)}, less than the element before it"
    if bounds.unique:
        order = np.sort(array, axis=None)
        twice = order[1:][order[1:] == order[:-1]]
        if twice.size:
            return f"{at(np.argwhere(array == twice[0])[1])}, which it also holds before"
    return None


def numbers(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """What an array of a kernel holds, as numbers: bf16 travels as its bits."""
    import numpy as np

    return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else array
