"""Programs with loops placed by hand, for the tests of lowering."""

from __future__ import annotations

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.program import Program


def packed_gemm(m: int, n: int, k: int, rows: int = 6, columns: int = 64, parallel: bool = False) -> Program:
    """A gemm with a packed panel of B, a register tile of `rows` by `columns`, guards where it does not divide."""
    b = ProgramBuilder("gemm")
    x, y, z = b.input("A", (m, k)), b.input("B", (k, n)), b.output("C", (m, n))
    panels = -(-n // columns)
    panel, tile = b.alloc("P", (panels, k, columns)), b.alloc("L", (m, n), scope="local")
    with b.loop("j0", panels, kind="parallel" if parallel else "serial") as j0:
        with b.loop("pk", k) as pk, b.loop("pj", columns, kind="vectorized") as pj:
            axes = (spatial("q", panels, at=j0), spatial("r", k, at=pk), spatial("s", columns, at=pj))
            with b.block("pack", *axes, where=j0 * columns + pj < n) as (q, r, s):
                panel[q, r, s] = y[r, q * columns + s]
        with b.loop("i0", -(-m // rows)) as i0:
            with b.loop("zi", rows, kind="unrolled") as zi, b.loop("zj", columns, kind="vectorized") as zj:
                at = (i0 * rows + zi, j0 * columns + zj)
                axes = (spatial("i", m, at=at[0]), spatial("j", n, at=at[1]))
                with b.block("zero", *axes, where=(at[0] < m) & (at[1] < n)) as (i, j):
                    tile[i, j] = 0.0
            with b.loop("k", k) as k0, b.loop("ii", rows, kind="unrolled") as ii:
                with b.loop("jj", columns, kind="vectorized") as jj:
                    at = (i0 * rows + ii, j0 * columns + jj)
                    axes = (spatial("i", m, at=at[0]), spatial("j", n, at=at[1]), reduce("k", k, at=k0))
                    with b.block("mm", *axes, init=(), where=(at[0] < m) & (at[1] < n)) as (i, j, r):
                        tile[i, j] = tile[i, j] + x[i, r] * panel[j // columns, r, j % columns]
            with b.loop("wi", rows, kind="unrolled") as wi, b.loop("wj", columns, kind="vectorized") as wj:
                at = (i0 * rows + wi, j0 * columns + wj)
                axes = (spatial("i", m, at=at[0]), spatial("j", n, at=at[1]))
                with b.block("write", *axes, where=(at[0] < m) & (at[1] < n)) as (i, j):
                    z[i, j] = tile[i, j]
    return b.finish()
