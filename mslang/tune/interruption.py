"""Ctrl-C, SIGTERM and SIGHUP: the first Ctrl-C ends a search in good order, anything else at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """The handler of these signals: the first Ctrl-C calls `stop`, any other signal `abandon`.

    Without either it raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.stop: Callable[[], None] | None = None
        self.abandon: Callable[[], None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        stop, self.stop = self.stop, None
        if stop is not None and number == signal.SIGINT:
            stop()
        elif self.abandon is not None:
            self.abandon()
        else:
            raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """The signals are handled while this is open, in the main thread."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may set handlers; elsewhere signals are the caller's business.
        yield interruption
        return
    # Signals that are ignored (SIGHUP under `nohup`) stay so.
    ending = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    handled = [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interruption) for number in handled}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
