"""How a task ended: one value for each way that a function in another process can end."""

from __future__ import annotations

import signal
from typing import Generic, TypeVar

import msgspec

from mslang.diagnostics import Diagnostic, MsError, problem

T_co = TypeVar("T_co", covariant=True)


class Done(msgspec.Struct, Generic[T_co], frozen=True):
    """The function returned `value`."""

    value: T_co


class Failed(msgspec.Struct, frozen=True):
    """The function raised `error`; `traceback` is the worker's, as text."""

    error: Exception
    traceback: str = ""


class Crashed(msgspec.Struct, frozen=True):
    """The process ended before it answered. `exit_code` is negative for a signal, as in `subprocess`."""

    exit_code: int

    @property
    def text(self) -> str:
        """How the process ended, in words."""
        if self.exit_code >= 0:
            return f"the process ended with status {self.exit_code}"
        try:
            name = signal.Signals(-self.exit_code).name
        except ValueError:
            name = f"signal {-self.exit_code}"
        return f"the process was ended by {name}"


class TimedOut(msgspec.Struct, frozen=True):
    """The function ran for more than `seconds`; its process was killed."""

    seconds: float


class OutOfMemory(msgspec.Struct, frozen=True):
    """The function needed more memory than the worker may allocate. `limit` is in bytes, None if there is no limit."""

    limit: int | None = None
    why: str = ""


class Cancelled(msgspec.Struct, frozen=True):
    """The task was cancelled, or the pool was stopped."""


Unsuccessful = Failed | Crashed | TimedOut | OutOfMemory | Cancelled
Outcome = Done[T_co] | Unsuccessful


def explanation(outcome: Unsuccessful, doing: str) -> tuple[Diagnostic, ...]:
    """Why a task gave no value, as diagnostics.

    Args:
        outcome: how the task ended.
        doing: what the task was, as the subject of a sentence: "running gemm", "the preview of tiled".

    Returns:
        The diagnostics of an `MsError`; otherwise one of MS507 (crash), MS508 (time limit), MS509 (memory limit),
        MS510 (another exception), MS511 (cancelled).

    Example:
        >>> explanation(TimedOut(2.0), "running gemm")[0].message
        'running gemm took more than 2 s'
    """
    match outcome:
        case Failed(error=MsError() as error):
            return error.diagnostics
        case Failed(error=error):
            return (problem("MS510", f"{doing} failed", why=f"{type(error).__name__}: {error}"),)
        case Crashed():
            return (problem("MS507", f"{doing} crashed", why=outcome.text),)
        case TimedOut(seconds=seconds):
            return (problem("MS508", f"{doing} took more than {seconds:g} s"),)
        case OutOfMemory(limit=limit, why=why):
            most = None if limit is None else f"a worker process may allocate {limit / 2**20:.0f} MiB"
            reasons = "; ".join(filter(None, (why, most)))
            return (problem("MS509", f"{doing} ran out of memory", why=reasons or None),)
        case Cancelled():
            return (problem("MS511", f"{doing} was cancelled"),)
