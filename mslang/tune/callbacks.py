"""Events while tuning: callbacks that are given every event, and cannot harm a search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from mslang.attribution import described
from mslang.diagnostics import Diagnostic, MsError, Severity
from mslang.extensions import allowed, loaded
from mslang.tune.progress import Event, Listener, Warned

GROUP = "mslang.callbacks"
"""The group of entry points that name callbacks."""


@runtime_checkable
class Callback(Protocol):
    """Is called with each event of a session, in order, in the process that called `tune`; the record is on disk then.

    Example:
        def callback(event):
            if isinstance(event, Trial) and event.better:
                print(event.task, event.record.seconds)
    """

    def __call__(self, event: Event, /) -> None:
        """Take note of an event. An exception is one warning, and the callback is called no more."""


def extensions_called() -> Iterator[tuple[str, Callback]]:
    """The callbacks of allowed packages, by name.

    Raises:
        MsError: MS212 or MS213, one of them cannot be loaded.
    """
    for found in loaded(GROUP, Callback, allowed()):
        if found.problem is not None:
            raise MsError(found.problem)
        assert isinstance(found.value, Callback)
        yield found.name, found.value


class Guarded:
    """A callback whose first exception becomes one warning (MS545), after which it is left alone.

    Args:
        name: what the warning calls it.
        callback: what is called.
        warn: is given the warning.
    """

    def __init__(self, name: str, callback: Callback, warn: Callable[[Diagnostic], None]) -> None:
        self._name, self._warn = name, warn
        self._callback: Callback | None = callback

    def __call__(self, event: Event) -> None:
        """Pass an event on."""
        if self._callback is None:
            return
        try:
            self._callback(event)
        except Exception as error:  # noqa: BLE001 - a callback is a user's code: none of its errors may end a search
            failed, self._callback = self._callback, None
            self._warn(
                Diagnostic(
                    "MS545",
                    f"the callback `{self._name}` failed and is not called again",
                    severity=Severity.WARNING,
                    why=described(error, failed),
                    help="the search goes on; every record is kept",
                )
            )


def listener(view: Listener, callbacks: Iterable[tuple[str, Callback]]) -> Listener:
    """One listener that passes each event to the view and then to every callback.

    Args:
        view: shows events; its exceptions end the search (a closed pipe).
        callbacks: names and callbacks, whose exceptions are warnings in the view.
    """
    guarded: Sequence[Guarded] = [Guarded(name, each, lambda d: view(Warned(d))) for name, each in callbacks]

    def listen(event: Event) -> None:
        view(event)
        for each in guarded:
            each(event)

    return listen
