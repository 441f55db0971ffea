"""CUDA C on the CPU: g++ compiles the file against a header that declares what CUDA has; threads run as fibers, and
every load and store is seen (`emulation/shadow.cpp`).
"""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from tests.cuda.source_text import INCLUDE, KERNEL_LINKAGE, for_cpu, kernels

HERE = Path(__file__).parent / "emulation"
ROOT = Path(__file__).parents[2]
RUNTIME = ("fibers.cpp", "shadow.cpp", "tensor.cpp", "numbers.cpp")
COMMON = (
    *("-std=c++17", "-w", "-fPIC", "-shared", "-g1", "-gdwarf-4", "-ffp-contract=off"),
    *("-fno-threadsafe-statics", "-fno-stack-protector", "-U_FORTIFY_SOURCE"),
)
CHECKED = (
    *("-fsanitize=thread,bounds,alignment", "--param", "tsan-instrument-func-entry-exit=0", "-nodefaultlibs"),
    # accesses are instrumented late: a load that g++ has moved out of a loop would be one that the source does not have
    "-fno-tree-loop-im",
)
ORDERS = {"forward": 0, "reversed": 1, "shuffled": 2}
GUARD = 256
"""Bytes between buffers; what is beyond a buffer's end is not a buffer."""
POISON = 0xFF
MOST_THREADS, MOST_DYNAMIC = 1024, 227 * 1024

KINDS = {
    1: "race",
    2: "same value",
    3: "race of blocks",
    4: "unset",
    5: "in flight",
    6: "outside",
    7: "misaligned",
    8: "index",
    9: "divergent",
    10: "trap",
}
_BOTH = "{access} of {place} by thread {thread} {at}, {other} by thread {other_thread} {other_at}"
_WHO = "thread {thread} of block {block}"
_TEXTS = {
    "race": f"{_BOTH}: no barrier between",
    "same value": f"{_BOTH}: the same value",
    "race of blocks": "{access} of {place} in block {block} {at}, {other} in block {other_block} {other_at}",
    "unset": f"read of {{place}} by {_WHO} {{at}}: nothing was written there",
    "in flight": f"{{access}} of {{place}} by {_WHO} {{at}}: an asynchronous copy to it was not waited for",
    "outside": f"{{access}} of {{bytes}} bytes outside of every buffer (at {{place}}) by {_WHO} {{at}}",
    "misaligned": f"a misaligned access by {_WHO} {{at}}",
    "index": f"an index outside of its array's bounds in {_WHO} {{at}}",
    "divergent": f"{_WHO} waits {{at}} for thread {{other_thread}}, which {{elsewhere}}",
    "trap": f"a trap in {_WHO} {{at}}",
}


class Launch(msgspec.Struct, frozen=True):
    """One kernel launch: buffers by name and sizes as numbers, in the order of the kernel's parameters."""

    function: str
    arguments: tuple[str | int, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int = 0


class Fault(msgspec.Struct, frozen=True):
    """What went wrong, where: `line` and `other_line` count in the source, 0 is unknown."""

    kind: str
    text: str
    line: int
    other_line: int
    buffer: str


class Outcome(msgspec.Struct, frozen=True):
    """What a run left in the buffers, and its faults; `same value` is apart, for it changes no result."""

    arrays: Mapping[str, np.ndarray]
    faults: tuple[Fault, ...]
    harmless: tuple[Fault, ...] = ()


class CompileError(Exception):
    """g++ does not take the file."""


class _RawFault(ctypes.Structure):
    _fields_ = [
        ("what", ctypes.c_int),
        ("write", ctypes.c_int),
        ("line", ctypes.c_int),
        ("other_line", ctypes.c_int),
        ("code", ctypes.c_void_p),
        ("other_code", ctypes.c_void_p),
        ("other_write", ctypes.c_int),
        ("block", ctypes.c_uint),
        ("thread", ctypes.c_uint),
        ("other_block", ctypes.c_uint),
        ("other_thread", ctypes.c_uint),
        ("region", ctypes.c_int),
        ("offset", ctypes.c_int64),
        ("bytes", ctypes.c_int),
    ]


def why_not() -> str | None:
    """Why CUDA C cannot be run here; None where it can."""
    if shutil.which("g++") is None:
        return "no g++ to compile the emitted source for the CPU"
    return None


def _compiled(command: Sequence[str], out: Path) -> None:
    """Run g++; the file appears whole or not at all, whoever else makes it."""
    with tempfile.NamedTemporaryFile(dir=out.parent, delete=False) as temporary:
        made = Path(temporary.name)
    done = subprocess.run(["g++", *command, "-o", str(made)], capture_output=True, text=True)
    if done.returncode:
        made.unlink()
        raise CompileError(done.stderr)
    made.replace(out)


@lru_cache(maxsize=1)
def _runtime() -> ctypes.CDLL:
    """The fibers and the shadow, compiled once for this version of their sources."""
    files = [HERE / name for name in RUNTIME]
    text = b"".join(f.read_bytes() for f in [*files, HERE / "runtime.h"]) + " ".join(COMMON).encode()
    library = ROOT / ".mslang" / f"emulation-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        _compiled([*COMMON, "-O2", *map(str, files)], library)
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


class Emulated:
    """Compiled CUDA C files; a context that removes them."""

    def __init__(self, *sources: str, checked: bool = True, optimize: int = 1) -> None:
        """Compile files, all at once.

        Args:
            sources: the files; each has its names for itself.
            checked: whether every access is seen; without it only results tell of a fault.
            optimize: g++'s level.

        Raises:
            CompileError: g++ does not take one; its text says why, with `NUMBER.cu` for the files.
        """
        self._folder = tempfile.TemporaryDirectory()
        self._runtime = _runtime()
        file, library = Path(self._folder.name) / "all.cpp", Path(self._folder.name) / "all.so"
        file.write_text(_joined(sources))
        flags = [*COMMON, f"-O{optimize}", *(CHECKED if checked else ()), "-x", "c++", "-I", str(HERE / "include")]
        try:
            _compiled([*flags, str(file)], library)
        except CompileError:
            self._folder.cleanup()
            raise
        self._library = ctypes.CDLL(str(library))
        self._path = library
        images = [(ctypes.c_void_p * 4).in_dll(self._library, f"emulated_image_{n}") for n in range(len(sources))]
        self._images = [[address or 0 for address in image] for image in images]

    def __enter__(self) -> Emulated:
        return self

    def __exit__(self, *_: object) -> None:
        _ctypes.dlclose(self._library._handle)
        self._folder.cleanup()

    def run(
        self,
        launches: Sequence[Launch],
        arrays: Mapping[str, np.ndarray],
        *,
        file: int = 0,
        unset: Sequence[str] = (),
        orders: Sequence[str] = ("forward", "reversed"),
        seed: int = 0,
        ignored_lines: Sequence[int] = (),
    ) -> Outcome:
        """Run kernels one after the other, once for each order of threads and blocks.

        Args:
            launches: the launches in order.
            arrays: an array for each buffer that they name; none is changed.
            file: the number of the file that has the kernels.
            unset: buffers of which nothing may be read before it is written.
            orders: in which orders threads and blocks take turns; the buffers must end the same.
            seed: of a shuffled order.
            ignored_lines: barriers on these lines are waited at, but order nothing.

        Returns:
            The buffers after the first order, and the faults of all; a fault `order` where the buffers differ.
        """
        results: list[dict[str, np.ndarray]] = []
        faults: dict[Fault, None] = {}
        for order in orders:
            given = {n: _guarded(a, n in unset) for n, a in arrays.items()}
            found, over = self._once(file, launches, given, unset, ORDERS[order], seed, ignored_lines)
            faults.update(dict.fromkeys(found))
            results.append(given)
            if not over:
                break
        for name, first in results[0].items():
            if not all(_same(first, other[name]) for other in results[1:]):
                text = f"{name} depends on the order in which threads take turns"
                faults[Fault("order", text, 0, 0, name)] = None
        harmless = tuple(f for f in faults if f.kind == "same value")
        return Outcome(results[0], tuple(f for f in faults if f.kind != "same value"), harmless)

    def _once(
        self,
        file: int,
        launches: Sequence[Launch],
        arrays: Mapping[str, np.ndarray],
        unset: Sequence[str],
        order: int,
        seed: int,
        ignored_lines: Sequence[int],
    ) -> tuple[list[Fault], bool]:
        """The faults of one run, and whether it came to its end."""
        rt = self._runtime
        rt.emulation_image(*map(ctypes.c_void_p, self._images[file]))
        rt.emulation_memory(ctypes.c_size_t(0))
        for number, (name, array) in enumerate(arrays.items()):
            rt.emulation_buffer(
                number, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), name not in unset
            )
        rt.emulation_constants()
        names = list(arrays)
        lines = (ctypes.c_int * len(ignored_lines))(*ignored_lines)
        faults: list[Fault] = []
        for launch in launches:
            if min(launch.grid) == 0:
                continue  # no block: the host launches nothing, as CUDA would refuse it
            if wrong := _impossible(launch):
                return [*faults, wrong], False
            rt.emulation_dynamic(ctypes.c_size_t(launch.dynamic_shared))
            slots = [ctypes.c_int64(arrays[a].ctypes.data if isinstance(a, str) else a) for a in launch.arguments]
            addresses = (ctypes.c_void_p * max(len(slots), 1))(*(ctypes.addressof(s) for s in slots))
            triple = ctypes.c_uint * 3
            function = getattr(self._library, f"emulated_call_{file}_{launch.function}")
            over = rt.emulation_launch(
                function, addresses, triple(*launch.grid), triple(*launch.block), order, seed, lines, len(lines)
            )
            faults += self._faults(file, names)
            if not over:
                return faults, False
        return faults, True

    def _faults(self, file: int, names: Sequence[str]) -> list[Fault]:
        raw = (_RawFault * 64)()
        count = self._runtime.emulation_faults(raw, len(raw))
        found = raw[:count]
        lines = self._lines(file, [c for f in found for c in (f.code, f.other_code) if c])
        return [_explained(f, lines, names) for f in found]

    def _lines(self, file: int, codes: Sequence[int]) -> dict[int, int]:
        """The line of the file for each code address: the outermost where a function was inlined."""
        if not codes or shutil.which("addr2line") is None:
            return {}
        base = self._images[file][0]
        found = {}
        for code in dict.fromkeys(codes):
            command = ["addr2line", "-i", "-e", str(self._path), hex(code - base - 1)]
            frames = subprocess.run(command, capture_output=True, text=True).stdout.split("\n")
            own = [f.rsplit(":", 1)[1].split()[0] for f in frames if f"/{file}.cu:" in f"/{f}"]
            found[code] = int(own[0]) if own and own[0].isdigit() else 0
        return found


def _joined(sources: Sequence[str]) -> str:
    """The file that g++ is given: each source on its own lines in a namespace, and how each kernel is called."""
    text = [for_cpu(s) for s in sources]
    headers = dict.fromkeys(h for t in text for h in INCLUDE.findall(t))
    units = "\n".join(_unit(t, kernels(s), n) for n, (t, s) in enumerate(zip(text, sources, strict=True)))
    return "\n".join(['#include "cuda_emulation.h"', *headers, units, ""])


def _unit(text: str, names: Sequence[str], number: int) -> str:
    """One source. Its shared variables are in a section of their own, so that a block poisons no other's."""
    section = f"emulated_shared_{number}"
    calls = "\n".join(
        f'extern "C" __attribute__((no_sanitize_thread)) void emulated_call_{number}_{k}(void** a) '
        f"{{ emulated_call(emulated_{number}::{k}, a); }}"
        for k in names
    )
    hidden = '__attribute__((weak, visibility("hidden")))'
    return f"""#define __shared__ static __attribute__((section("{section}")))
namespace emulated_{number} {{
#line 1 "{number}.cu"
{KERNEL_LINKAGE.sub("__global__", INCLUDE.sub("", text))}
}}
#undef __shared__
{calls}
extern "C" {{
extern char __ehdr_start {hidden}, _end {hidden}, __start_{section} {hidden}, __stop_{section} {hidden};
void* emulated_image_{number}[] = {{&__ehdr_start, &_end, &__start_{section}, &__stop_{section}}};
}}"""


def _impossible(launch: Launch) -> Fault | None:
    """What a launch asks for that no GPU has."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    if min(*launch.grid, *launch.block) >= 1 and threads <= MOST_THREADS and launch.dynamic_shared <= MOST_DYNAMIC:
        return None
    text = f"{launch.function} cannot be launched with grid {launch.grid}, block {launch.block}"
    return Fault("launch", f"{text}, {launch.dynamic_shared} bytes of dynamic shared memory", 0, 0, "")


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether arrays are equal bit for bit, but for the sign and the payload of NaN: sums in another order differ."""
    equal = _bits(a) == _bits(b)
    return bool((equal | (np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else equal).all())


def _bits(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")


def _guarded(array: np.ndarray, poisoned: bool) -> np.ndarray:
    """A copy with unused memory on both sides, aligned as a GPU aligns it."""
    memory = np.full(array.nbytes + 3 * GUARD, POISON, np.uint8)
    start = GUARD + -(memory.ctypes.data + GUARD) % GUARD
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    if not poisoned:
        copy[...] = array
    return copy


def _explained(f: _RawFault, lines: Mapping[int, int], names: Sequence[str]) -> Fault:
    kind = KINDS[f.what]
    line = f.line or lines.get(f.code or 0, 0)
    other_line = f.other_line or lines.get(f.other_code or 0, 0)
    buffer = {-1: "", -2: "shared memory", -3: "dynamic shared memory"}.get(f.region) or (
        names[f.region] if f.region >= 0 else ""
    )

    def at(n: int) -> str:
        return f"at line {n}" if n else "at an unknown line"

    text = _TEXTS[kind].format(
        access="write" if f.write else "read",
        other="written" if f.other_write else "read",
        place=f"{buffer}, byte {f.offset}" if buffer else "no buffer",
        thread=f.thread,
        other_thread=f.other_thread,
        block=f.block,
        other_block=f.other_block,
        bytes=f.bytes,
        at=at(line),
        other_at=at(other_line),
        elsewhere=f"waits {at(other_line)}" if other_line else "has ended or does not take part",
    )
    return Fault(kind, text, line, other_line, buffer)
