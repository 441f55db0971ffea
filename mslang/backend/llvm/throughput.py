"""What an iteration of a loop of machine code costs, without running it.

The instructions are counted by kind. `llvm-mca` simulates the loop on a model of the processor, where it is installed;
otherwise the counts give a lower bound for a core like those of today, which is stated with the bound.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from mslang.target.description import Target

ITERATIONS = 200
"""Iterations that are simulated: the start and the end of a run count little among them."""

SECONDS = 5.0
"""A simulation that takes longer is given up."""

_FUSED = re.compile(r"vfn?m(?:add|sub)|vpdp|vdpbf16|fml[as]\b|tdp")
_ARITHMETIC = re.compile(r"v?(?:add|sub|mul|div|sqrt|max|min|rcp|rsqrt|cvt|round|rndscale|scalef|getexp)\w*[ps][sdh]\b")
_MEMORY = re.compile(r"-?\w*\([^)]*\)(?:\s*\{[^}]*\})*")
_REGISTER = re.compile(r"%([xyz])mm")
_STACK = re.compile(r"\(%(?:rsp|esp)")
_ONE = {"loads": "load", "stores": "store", "calls": "call"}
_SCALAR = re.compile(r"(?!vp)\w*s[sdh]$")
_BITS = {"x": 128, "y": 256, "z": 512}


class Core(msgspec.Struct, frozen=True):
    """What a core begins in a cycle: multiply-adds and other arithmetic, loads, stores, instructions of any kind."""

    arithmetic: float = 2
    loads: float = 2
    stores: float = 1
    instructions: float = 6

    def __str__(self) -> str:
        return (
            f"{self.arithmetic:g} multiply-adds, {self.loads:g} loads, {self.stores:g} stores, "
            f"{self.instructions:g} instructions"
        )


FULL_WIDTH, HALF_WIDTH = Core(), Core(1, 1, 0.5)
"""Cores whose units are as wide as their vectors, and those with units of half the width. Sources: Intel, Optimization
Reference Manual (Golden Cove); AMD, Software Optimization Guide for Zen 4."""

_HALF = {"znver4": 512}
"""Processors that take two passes for vectors of so many bits."""


def core_of(target: Target, bits: int) -> Core:
    """What the core of a target does in a cycle with vectors of so many bits.

    >>> from mslang.target.description import AVX512
    >>> core_of(AVX512, 512).arithmetic
    2
    """
    return HALF_WIDTH if _HALF.get(target.cpu) == bits else FULL_WIDTH


class Counts(msgspec.Struct, frozen=True):
    """The instructions of a loop by kind. `bits` is the widest vector register; `fused_bits` that of a fused
    multiply-add; `stack` are the accesses of the stack: spilled registers, and local buffers in memory."""

    instructions: int
    fused: int
    arithmetic: int
    loads: int
    stores: int
    stack: int
    bits: int
    fused_bits: int
    calls: int


class Simulated(msgspec.Struct, frozen=True):
    """What `llvm-mca` found: cycles of an iteration, instructions a cycle, and the model of the processor."""

    cycles: float
    instructions_a_cycle: float
    bound: float
    model: str


def counted(body: Sequence[str]) -> Counts:
    """The instructions of a loop by kind, in the syntax that LLVM prints for x86.

    >>> counted(["vfmadd231ps (%rax), %zmm0, %zmm1", "vmovups %zmm1, 8(%rsp)", "jne .L"]).fused_bits
    512
    """
    fused = arithmetic = loads = stores = stack = calls = bits = fused_bits = 0
    for text in body:
        name = text.split(None, 1)[0]
        scalar = _SCALAR.match(name) is not None and "broadcast" not in name
        width = 0 if scalar else max((_BITS[r] for r in _REGISTER.findall(text)), default=0)
        bits = max(bits, width)
        if _FUSED.match(name):
            fused += 1
            fused_bits = max(fused_bits, width)
        elif _ARITHMETIC.match(name):
            arithmetic += 1
        calls += name.startswith("call")
        memory = _MEMORY.search(text)
        if memory is None or name.startswith(("lea", "prefetch", "nop")):
            continue
        stack += bool(_STACK.search(text))
        if "movnt" in name:
            continue  # Each has an ordinary store beside it, for addresses that it cannot store to.
        # The last operand is what is written.
        if text.rstrip().endswith(memory[0]) and not name.startswith(("cmp", "test", "vucomi", "vcomi")):
            stores += 1
        else:
            loads += 1
    return Counts(len(body), fused, arithmetic, loads, stores, stack, bits, fused_bits, calls)


def estimate(body: Sequence[str], target: Target) -> Iterator[str]:
    """What is said of a loop: its instructions, what is suspicious, and what an iteration costs."""
    if not any("%" in text for text in body):
        # Registers are written so for x86 alone.
        yield f"{len(body)} instructions"
        return
    counts = counted(body)
    width = f"{counts.fused_bits} bits" if counts.fused_bits else "scalar"
    kinds = {
        f"fused multiply-adds ({width})": counts.fused,
        "other arithmetic": counts.arithmetic,
        "loads": counts.loads,
        "stores": counts.stores,
        "calls": counts.calls,
    }
    listed = ", ".join(f"{n} {kind if n > 1 else _ONE.get(kind, kind)}" for kind, n in kinds.items() if n)
    yield f"{counts.instructions} instructions: {listed or 'none accesses memory'}"
    yield from _warnings(counts, target)
    simulated = None if counts.calls else simulate(tuple(body), target)
    core = core_of(target, counts.bits)
    cycles, by = bound(counts, core)
    # The model of another processor may have wider units.
    if simulated is not None and cycles <= simulated.cycles:
        yield (
            f"{simulated.cycles:.4g} cycles an iteration, {simulated.instructions_a_cycle:.2f} instructions a cycle, "
            f"at least {simulated.bound:.4g} cycles by its units (llvm-mca, {simulated.model}; all data in L1)"
        )
    else:
        yield f"at least {cycles:.4g} cycles an iteration, by {by} (assumed a cycle: {core}; all data in L1)"


def bound(counts: Counts, core: Core = FULL_WIDTH) -> tuple[float, str]:
    """The least cycles of an iteration, and which kind of instruction needs them."""
    return max(
        (counts.instructions / core.instructions, "its instructions"),
        ((counts.fused + counts.arithmetic) / core.arithmetic, "its arithmetic"),
        (counts.loads / core.loads, "its loads"),
        (counts.stores / core.stores, "its stores"),
    )


def _warnings(counts: Counts, target: Target) -> Iterator[str]:
    if counts.stack:
        yield f"! {counts.stack} of them on the stack: registers are spilled, or a local buffer is in memory"
    width = counts.fused_bits if counts.fused else counts.bits
    if (counts.fused or counts.arithmetic) and width < target.vector_bits:
        found = f"vectors of {width} bits" if width else "scalar arithmetic"
        yield f"! {found}; the target has vectors of {target.vector_bits} bits"


# ------------------------------------------------------------------ llvm-mca
@lru_cache(maxsize=256)
def simulate(body: tuple[str, ...], target: Target) -> Simulated | None:
    """The loop on a model of the processor, by `llvm-mca`; None where it is not installed or does not know the code.

    An older `llvm-mca` may not know the processor. Then its model of one with the same vectors is used, and named.
    """
    program = shutil.which("llvm-mca")
    if program is None:
        return None
    stand_in = "icelake-server" if target.vector_bits >= 512 else "haswell"
    for model in dict.fromkeys((target.cpu, stand_in)):
        found = _run(program, "\n".join(body) + "\n", target.triple, model) if model else None
        if found is not None:
            return found
    return None


def _run(program: str, text: str, triple: str, model: str) -> Simulated | None:
    command = [program, f"-mtriple={triple or 'x86_64'}", f"-mcpu={model}", f"-iterations={ITERATIONS}"]
    command += ["-instruction-info=0", "-resource-pressure=0", "-"]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    figures = dict(re.findall(r"^([A-Z][\w ]+):\s+([\d.]+)$", done.stdout, re.M))
    try:
        cycles = float(figures["Total Cycles"]) / float(figures["Iterations"])
        each, least = float(figures["IPC"]), float(figures["Block RThroughput"])
    except (KeyError, ZeroDivisionError):
        return None
    unknown = "is not a recognized processor" in done.stderr
    return None if done.returncode or unknown else Simulated(cycles, each, least, model)
