"""What a time is worth, for people."""

from __future__ import annotations

import msgspec


class Scale(msgspec.Struct, frozen=True):
    """What a time is worth: the program's operations, and this machine's measured peak in operations a second."""

    operations: int | None
    peak: float | None

    def rate(self, seconds: float) -> str:
        """`137 GFLOP/s, 91 % of peak`."""
        if not self.operations:
            return ""
        rate = self.operations / seconds
        share = f", {100 * rate / self.peak:.0f} % of peak" if self.peak else ""
        return f"{rate / 1e9:.4g} GFLOP/s{share}"
