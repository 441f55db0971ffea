"""What identifies the machine that times were measured on."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import msgspec

from mslang.target.detect import host


class Machine(msgspec.Struct, frozen=True):
    """A machine: `key` differs wherever times are not comparable, `name` is for people (`rocketlake × 2`)."""

    key: str
    name: str


@lru_cache(maxsize=1)
def this_machine() -> Machine:
    """The machine of this process: its processor, features and the number of threads that it may run."""
    own = host()
    text = f"{own.kind}|{own.triple}|{own.cpu}|{','.join(own.features)}|{own.cores}"
    return Machine(hashlib.sha256(text.encode()).hexdigest()[:16], f"{own.cpu} × {own.cores}")
