"""Messages of Python's logging on standard error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mslang.cli.common import note


class _ToNotes(logging.Handler):
    """Prints to what standard error is at the time, which a live table replaces."""

    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


@contextmanager
def messages(level: str | None) -> Iterator[None]:
    """Print what mslang logs from a level (`"INFO"`) on; nothing without a level."""
    if level is None:
        yield
        return
    logger, handler = logging.getLogger("mslang"), _ToNotes()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
