"""What this machine can do at most, measured: the scale that results are shown against.

The figures are kept in a file of the user's cache folder, by processor, number of cores and instructions used.
"""

from __future__ import annotations

import ctypes
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from mslang.target.description import MIB, Target
from mslang.target.detect import host

_ACCUMULATORS = 10
"""Independent sums: enough to hide the latency of a fused multiply-add on two units."""

_FLOPS = 1 << 26
_COPIED = 64 * MIB


class MachineLimits(msgspec.Struct, frozen=True):
    """f32 operations a second of one core and of all, bytes a second (read and written) of a copy in memory."""

    peak_core: float
    peak: float
    bandwidth: float


def measured_limits(
    target: Target | None = None,
    *,
    refresh: bool = False,
    folder: Path | None = None,
) -> MachineLimits:
    """The limits of this machine with the instructions of `target` (default: all that it has).

    Arguments: `refresh` measures anew; `folder` holds the cache (default: `mslang` in the user's cache folder).
    """
    machine = target if target is not None and target.kind == "cpu" else host()
    own = host()
    bits = min(machine.vector_bits, own.vector_bits)
    cores = min(machine.cores, own.cores)
    path = (folder or Path.home() / ".cache" / "mslang") / "limits.json"
    key = f"{own.cpu} {cores} {bits}"
    known = _read(path)
    if not refresh and key in known:
        return known[key]
    found = _measure(bits, cores)
    _write(path, _read(path) | {key: found})
    return found


def _read(path: Path) -> dict[str, MachineLimits]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, MachineLimits])
    except (OSError, msgspec.DecodeError):
        return {}


def _write(path: Path, limits: dict[str, MachineLimits]) -> None:
    # Without a place to keep them the figures are measured each time.
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{threading.get_ident()}.new")
        partial.write_bytes(msgspec.json.encode(limits))
        partial.replace(path)
    except OSError:
        return


def _measure(bits: int, cores: int) -> MachineLimits:
    lanes = max(4, bits // 32)
    library, address = _fma_kernel(lanes)
    run = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(address)
    rounds = _FLOPS // (2 * lanes * _ACCUMULATORS)
    work = 2.0 * lanes * _ACCUMULATORS * rounds
    run(rounds)
    one = max(_rate(run, rounds, work) for _ in range(7))
    together = max(_side_by_side(run, rounds, work, cores) for _ in range(5))
    del library
    return MachineLimits(one, max(one, together), _copy_rate())


def _rate(run: Any, rounds: int, work: float) -> float:
    """Operations a second of processor time, so that other processes do not count."""
    before = time.thread_time()
    run(rounds)
    return work / max(time.thread_time() - before, 1e-9)


def _side_by_side(run: Any, rounds: int, work: float, cores: int) -> float:
    """The sum of the rates of all cores while all of them work."""
    ready = threading.Barrier(cores)
    rates: list[float] = []

    def part() -> None:
        ready.wait()
        rates.append(_rate(run, rounds * 8, work * 8))

    threads = [threading.Thread(target=part) for _ in range(cores)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(rates)


def _fma_kernel(lanes: int) -> tuple[Any, int]:
    """A loop of fused multiply-adds in registers, compiled for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    kind = f"<{lanes} x float>"
    phis, steps, total = [], [], "%x0.next"
    lines: list[str] = []
    for k in range(_ACCUMULATORS):
        phis.append(f"  %x{k} = phi {kind} [ %s{k}, %entry ], [ %x{k}.next, %loop ]")
        steps.append(f"  %x{k}.next = call {kind} @llvm.fma.v{lanes}f32({kind} %x{k}, {kind} %m, {kind} %a)")
        if k:
            lines.append(f"  %y{k} = fadd {kind} {total}, %x{k}.next")
            total = f"%y{k}"
    # Different starts: equal sums would be computed once.
    first = f"insertelement {kind} zeroinitializer, float"
    starts = [f"  %s{k} = {first} {float(k):.1f}, i64 0" for k in range(_ACCUMULATORS)]
    text = "\n".join(
        [
            f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})",
            'define float @peak(i64 %n) "prefer-vector-width"="512" {',
            "entry:",
            "  %f = sitofp i64 %n to float",
            f"  %a = {first} %f, i64 0",
            f"  %m = {first} 0.5, i64 0",
            *starts,
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]",
            *phis,
            *steps,
            "  %i.next = add i64 %i, 1",
            "  %more = icmp slt i64 %i.next, %n",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *lines,
            f"  %r = extractelement {kind} {total}, i64 0",
            "  ret float %r",
            "}",
        ]
    )
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=features,
        opt=2,
        reloc="pic",
        codemodel="small",
    )
    module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{text}')
    jit = llvm.create_lljit_compiler()
    builder = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(module)).export_symbol("peak")
    library = builder.link(jit, "limits")
    return (jit, library), library["peak"]


def _copy_rate() -> float:
    import numpy as np

    source = np.ones(_COPIED, np.uint8)
    target = np.zeros(_COPIED, np.uint8)

    def seconds() -> float:
        before = time.perf_counter()
        np.copyto(target, source)
        return time.perf_counter() - before

    return 2.0 * _COPIED / min(seconds() for _ in range(5))
