"""The most that a GPU can do: what a multiprocessor does in a cycle, times their number and the clock.

Source: NVIDIA, CUDA C++ Best Practices Guide, "Throughput of Native Arithmetic Instructions" (CUDA cores); the white
papers on the architectures Tesla V100, Turing, A100, GA102, Ada and H100 (tensor cores, dense).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from mslang.backend.cuda.device import Device, device, unavailable
from mslang.backend.cuda.executable import architecture, number_of
from mslang.target.description import Target

CLOCK_MARGIN = 1.25
"""A GPU may run above the clock that its driver reports: GeForce cards, whose boost clock is a typical one, by a fifth.
Times are impossible only above so many times the calculated peak."""

TF32 = "tf32"
"""What tensor cores make of f32: it is rounded to 10 bits of mantissa. Programs ask for it by their instructions."""


class Rates(NamedTuple):
    """Multiply-adds of one multiprocessor in a cycle, by element type.

    `tensor_clock` is the clock at which tensor cores run in full, as a share of the GPU's boost clock.
    """

    cores: Mapping[str, int]
    tensor: Mapping[str, int]
    tensor_clock: float = 1.0


RATES: Mapping[int, Rates] = MappingProxyType(
    {
        70: Rates({"f32": 64, "f64": 32}, {"f16": 512}),
        75: Rates({"f32": 64, "f64": 2}, {"f16": 512, "i8": 1024}),
        80: Rates({"f32": 64, "f64": 32}, {"f16": 1024, "bf16": 1024, "i8": 2048, TF32: 512, "f64": 64}),
        86: Rates({"f32": 128, "f64": 2}, {"f16": 512, "bf16": 512, "i8": 1024, TF32: 256}),
        89: Rates({"f32": 128, "f64": 2}, {"f16": 512, "bf16": 512, "i8": 1024, TF32: 256}),
        # H100 runs at 1980 MHz, and at 1830 MHz where tensor cores are busy; its PCIe form at 1755 and 1620.
        90: Rates(
            {"f32": 128, "f64": 64}, {"f16": 2048, "bf16": 2048, "i8": 4096, TF32: 1024, "f64": 128}, tensor_clock=0.924
        ),
    }
)
"""By compute capability. GeForce cards do half of the products whose sums are f32: theirs are those of f16 sums."""


class Card(msgspec.Struct, frozen=True):
    """A GPU: compute capability as a number, multiprocessors, boost clock in Hz, bytes a second of its memory.

    What is not known is None.
    """

    sm: int
    sms: int | None
    clock: float | None
    bandwidth: float | None = None

    def peak(self, dtype: str) -> float | None:
        """Operations a second of an element type, a multiply-add being two; None where it is not known.

        >>> a100 = Card(80, 108, 1.41e9)
        >>> [f"{a100.peak(dtype) / 1e12:.4g}" for dtype in ("f32", "f16", "f64")]
        ['19.49', '311.9', '19.49']
        """
        rates = RATES.get(self.sm)
        if rates is None or not self.sms or not self.clock:
            return None
        # Products of f64 keep the boost clock.
        tensor = rates.tensor.get(dtype, 0) * (1.0 if dtype == "f64" else rates.tensor_clock)
        each = max(rates.cores.get(dtype, 0), tensor)
        return 2 * each * self.sms * self.clock if each else None

    def ceiling(self, dtype: str) -> float | None:
        """Operations a second that no program exceeds, whatever the clock, tf32 in place of f32 included."""
        found = [rate for d in ((dtype, TF32) if dtype == "f32" else (dtype,)) if (rate := self.peak(d)) is not None]
        return CLOCK_MARGIN * max(found) if found else None


def card_of(target: Target) -> Card:
    """The GPU of this machine; where there is none, the one that a target describes."""
    return described(target) if unavailable() is not None else card_here(device())


def card_here(gpu: Device) -> Card:
    """What the driver reports of a GPU. Its memory transfers twice in a cycle of the memory's clock.

    Source: NVIDIA, CUDA C++ Best Practices Guide, "Theoretical Bandwidth Calculation"
    """
    kilohertz, memory, bits = map(gpu.attribute, ("CLOCK_RATE", "MEMORY_CLOCK_RATE", "GLOBAL_MEMORY_BUS_WIDTH"))
    return Card(
        gpu.sm,
        gpu.attribute("MULTIPROCESSOR_COUNT"),
        1e3 * kilohertz if kilohertz else None,
        2 * 1e3 * memory * bits / 8 if memory and bits else None,
    )


def described(target: Target) -> Card:
    """What a target says of a GPU, in its fields `arch`, `sms`, `clock` and `bandwidth`."""
    sms, clock, bandwidth = map(target.fields.get, ("sms", "clock", "bandwidth"))
    return Card(
        number_of(architecture(target)),
        sms if isinstance(sms, int) else None,
        float(clock) if isinstance(clock, int | float) else None,
        float(bandwidth) if isinstance(bandwidth, int | float) else None,
    )
