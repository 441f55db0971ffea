"""What identifies the machine that times were measured on."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import msgspec

from mslang.target.detect import host


class Machine(msgspec.Struct, frozen=True):
    """A machine: `key` differs wherever times are not comparable, `name` is for people (`rocketlake × 2`).

    `cpu` and `features` are LLVM's names, `threads` is how many a process may run; `device` is what runs the code where
    that is not the processor (a GPU).
    """

    key: str
    name: str
    cpu: str = ""
    features: tuple[str, ...] = ()
    threads: int = 0
    device: str = ""

    def with_device(self, device: str) -> Machine:
        """The machine for code that another device of it runs."""
        key = hashlib.sha256(f"{self.key}|{device}".encode()).hexdigest()[:16]
        return msgspec.structs.replace(self, key=key, name=f"{device} in {self.name}", device=device)

    def with_runner(self, runner: str) -> Machine:
        """The machine for what a runner of a user's own measures on it, which no time of another is compared with."""
        key = hashlib.sha256(f"{self.key}|runner {runner}".encode()).hexdigest()[:16]
        return msgspec.structs.replace(self, key=key, name=f"{self.name}, {runner}")


@lru_cache(maxsize=1)
def this_machine() -> Machine:
    """The machine of this process: its processor, features and the number of threads that it may run."""
    own = host()
    text = f"{own.kind}|{own.triple}|{own.cpu}|{','.join(own.features)}|{own.cores}"
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Machine(key, f"{own.cpu} × {own.cores}", own.cpu, own.features, own.cores)
