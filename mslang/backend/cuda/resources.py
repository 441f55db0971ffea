"""What a kernel takes of a multiprocessor, as ptxas reports it (`-v`)."""

from __future__ import annotations

import re

import msgspec

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


class Resources(msgspec.Struct, frozen=True):
    """Registers of a thread, bytes of a block's static shared memory, bytes of a thread's stack and of its spills."""

    function: str
    registers: int = 0
    shared: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0

    @property
    def text(self) -> str:
        """One line for people."""
        spilled = f", {self.spill_stores} bytes spilled" if self.spill_stores else ""
        return f"{self.function}: {self.registers} registers, {self.shared} bytes of shared memory{spilled}"


def read_resources(log: str) -> tuple[Resources, ...]:
    """The resources of each kernel in the log of ptxas, in its order.

    >>> log = "info : Compiling entry function 'f' for 'sm_80'\\ninfo : Used 40 registers, 4096 bytes smem"
    >>> read_resources(log)[0].text
    'f: 40 registers, 4096 bytes of shared memory'
    """
    found: list[Resources] = []
    for line in log.splitlines():
        entry = _ENTRY.search(line)
        if entry is not None:
            found.append(Resources(entry[1]))
        if not found:
            continue
        last = found[-1]
        if (spills := _SPILLS.search(line)) is not None:
            stack, stores, loads = map(int, spills.groups())
            found[-1] = msgspec.structs.replace(last, stack=stack, spill_stores=stores, spill_loads=loads)
        elif (used := _USED.search(line)) is not None:
            shared = _SHARED.search(line)
            found[-1] = msgspec.structs.replace(
                last, registers=int(used[1]), shared=0 if shared is None else int(shared[1])
            )
    return tuple(found)
