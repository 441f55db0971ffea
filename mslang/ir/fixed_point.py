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


def q_multiply_shifted(x: Expr, factor: Expr, q: Expr, left: Expr, right: Expr) -> Expr:
    """`x * 2 ** left * factor * 2 ** -(q + right)`, rounded as `q_multiply_shift` does; the shifts are data.

    Args:
        x: an i32.
        factor: an i32 with `q` fractional bits.
        q: the fractional bits of `factor`, an i32.
        left: how many bits `x` is shifted to the left before, an i32.
        right: how many bits the result is shifted to the right besides, an i32.

    Returns:
        An i32; the product is taken in 64 bits.

    Source: TVM q_multiply_shift_per_axis
    """
    bits = Cast("i64", Binary("+", right, q))
    shifted = Cast("i64", x) if left == Const(0, "i32") else Binary("<<", Cast("i64", x), Cast("i64", left))
    product = Binary("*", shifted, Cast("i64", factor))
    half = Binary("<<", Const(1, "i64"), Binary("-", bits, Const(1, "i64")))
    return Cast("i32", Binary(">>", Binary("+", product, half), bits))
