"""Which element types hold all values of which others, by converting the values there and back."""

import numpy as np
import pytest

from mslang.ir.dtype import FLOATS, INTS, UINTS, widens
from mslang.runtime.arrays import numpy_name

TYPES = [t for t in (*INTS, *UINTS, *FLOATS) if t != "bf16"]


def values(dtype: str) -> np.ndarray:
    """All values of a type of up to 16 bits; extremes, and what lies near powers of two, of a wider one."""
    kind = np.dtype(numpy_name(dtype))
    if kind.itemsize <= 2:
        found = np.arange(2 ** (8 * kind.itemsize), dtype=np.uint32).astype(f"u{kind.itemsize}").view(kind)
        return found[np.isfinite(found)]
    if kind.kind == "f":
        exponents = np.arange(-100, 100)
        return np.concatenate([np.ldexp(m, exponents).astype(kind) for m in (1.0, 1 + 2.0**-23, 1 + 2.0**-50)])
    info = np.iinfo(kind)
    near = {k + d for p in range(8 * kind.itemsize) for k in (1 << p, -(1 << p)) for d in (-1, 0, 1)}
    return np.array(sorted(x for x in near | {info.min, info.max} if info.min <= x <= info.max), kind)


@pytest.mark.parametrize("wide", TYPES)
@pytest.mark.parametrize("narrow", TYPES)
def test_a_type_holds_another_if_all_values_come_back(narrow: str, wide: str) -> None:
    given = values(narrow)
    with np.errstate(all="ignore"):
        there = given.astype(numpy_name(wide))
    number = float if given.dtype.kind == "f" else int
    back = bool(np.isfinite(there).all()) and all(number(a) == number(b) for a, b in zip(given, there, strict=True))
    assert widens(narrow, wide) == back


@pytest.mark.parametrize("wide", [*TYPES, "bf16"])
def test_bf16_is_held_by_f32_and_f64_alone(wide: str) -> None:
    assert widens("bf16", wide) == (wide in ("bf16", "f32", "f64"))
    # 8 significant bits, and the exponents of f32.
    held = ("i8", "u8", "bf16")
    assert widens(wide, "bf16") == (wide in held)


def test_bool_and_other_numbers_of_lanes_are_not_held() -> None:
    assert not widens("bool", "i8") and not widens("i8", "bool") and not widens("nothing", "i8")
    assert widens("i8x4", "i32x4") and not widens("i8x4", "i32x8") and not widens("i8", "i32x4")
