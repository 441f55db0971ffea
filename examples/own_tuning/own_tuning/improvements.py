"""A callback: one line in `improvements.txt` for each new best."""

from pathlib import Path

from mslang.tune.progress import Event, Trial


def improvements(event: Event) -> None:
    """Is called with every event; `event.task` names the task."""
    match event:
        case Trial(record=record, better=True) if record.seconds is not None:
            with Path("improvements.txt").open("a") as file:
                file.write(f"{event.task} {record.trial} {record.seconds * 1e6:.3f} µs\n")
