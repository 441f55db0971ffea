"""Inputs and expected results on disk: written once for a program, mapped read-only by every process that verifies.

A candidate that writes where it must not changes its own copies, or crashes on the mapping; never what the next one is
compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.ir.program import Program
from mslang.runtime.arrays import ALIGNMENT
from mslang.runtime.pages import memory

if TYPE_CHECKING:
    import numpy as np

    from mslang.tune.verification import Arrays


def write_expected(folder: Path, kind: str, inputs: Arrays, outputs: Arrays) -> None:
    """Keep the inputs of a kind and what the program computes from them."""
    import numpy as np

    for way, arrays in (("in", inputs), ("out", outputs)):
        for name, array in arrays.items():
            np.save(folder / f"{kind} {way} {name}.npy", array)


def read_expected(folder: Path, kind: str) -> tuple[Arrays, Arrays]:
    """Inputs and outputs of a kind, read-only."""
    inputs: Arrays = {}
    outputs: Arrays = {}
    for file in sorted(folder.glob(f"{kind} *.npy")):
        way, name = file.stem.removeprefix(f"{kind} ").split(" ", 1)
        (inputs if way == "in" else outputs)[name] = _mapped(file)
    return inputs, outputs


def _mapped(file: Path) -> np.ndarray:
    import numpy as np

    try:
        found: np.ndarray = np.load(file, mmap_mode="r")
    except ValueError:
        # There is no mapping of nothing: an array without elements.
        found = np.load(file)
        found.flags.writeable = False
    return found


def private_copies(inputs: Mapping[str, np.ndarray]) -> Arrays:
    """Copies whose data begins at multiples of 64 bytes, as the arrays of a careful caller do; large ones in huge
    pages."""
    return {name: _aligned(array) for name, array in inputs.items()}


def _aligned(array: np.ndarray) -> np.ndarray:
    copy = memory(array.nbytes, ALIGNMENT).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def changed_input(program: Program, inputs: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first `in` parameter whose array is not what it was, or None. Bits are compared: NaN equals itself."""
    for param in program.params:
        if param.direction == "in":
            before, after = inputs[param.buffer.name], arrays[param.buffer.name]
            if not same_bits(before, after):
                return param.buffer.name
    return None


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one shape and type have the same bits."""
    import numpy as np

    # Words are compared eight times as fast as bytes.
    word = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    x, y = (np.ascontiguousarray(array).reshape(-1).view(np.uint8).view(word) for array in (a, b))
    return bool(np.array_equal(x, y))
