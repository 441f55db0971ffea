"""Fixed-point arithmetic, spelled out in integers."""

from __future__ import annotations

from mslang.ir.expr import Binary, Cast, Const, Expr


def q_multiply_shift(x: Expr, factor: Expr, q: int, shift: int) -> Expr:
    """`x * factor * 2 ** -shift`, rounded to the nearest, halves up, for an i32 `x` and a fixed-point `factor`.

    Args:
        x: an i32.
        factor: an i32 with `q` fractional bits.
        q: the fractional bits of `factor`.
        shift: how many bits the result is shifted to the right besides; `q + shift` is 1 to 62.

    Returns:
        An i32; the product is taken in 64 bits.

    Source: TVM q_multiply_shift
    """
    bits = q + shift
    if not 1 <= bits <= 62:
        raise ValueError(f"q + shift is {bits}, not from 1 to 62")
    product = Binary("*", Cast("i64", x), Cast("i64", factor))
    rounded = Binary("+", product, Const(1 << (bits - 1), "i64"))
    return Cast("i32", Binary(">>", rounded, Const(bits, "i64")))
