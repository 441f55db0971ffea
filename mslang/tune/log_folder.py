"""The log of a session on disk: a folder a task, in files that people and programs read.

    RUN/task.json          what is searched: program, space, file, target, weight, run, database
    RUN/program.ms         the program in its long form
    RUN/sketches/N.ms      each sketch that was tried, decisions left open
    RUN/trials.jsonl       each trial: decisions, outcome, reason, time, prediction, seconds by stage
    RUN/generations.jsonl  each generation: candidates drafted, rejections by reason, quality of the model
    RUN/events.jsonl       all else in order: preparing, started, confirming, finished, diagnostics
    RUN/profile.json       seconds by scope of the whole session, written at its end

Lines are those of `mslang tune --json`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mslang.tune.event_json import as_builtins
from mslang.tune.progress import Ended, Event, Generation, Planned, PlannedTask, Sketched, Started, Trial


class LogFolder:
    """A callback that keeps the log of a session in a folder; what a resumed run adds is appended.

    Generations that a resumed run replays are there again, and so are trials whose records other runs made: of a
    generation the last line counts, of a candidate the first.

    Args:
        folder: where each task gets a folder named as its run; made when the first task starts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._planned: dict[str, PlannedTask] = {}
        self._early: dict[str, list[Event]] = {}
        self._runs: dict[str, Path] = {}

    def __call__(self, event: Event) -> None:
        """Write an event into the folder of its task."""
        match event:
            case Planned(tasks=tasks):
                self._planned = {t.name: t for t in tasks}
            case Ended(scopes=scopes):
                for run in self._runs.values():
                    (run / "profile.json").write_bytes(msgspec.json.format(msgspec.json.encode(scopes), indent=2))
            case Started(task=task):
                self._open(event)
                for early in (*self._early.pop(task, ()), event):
                    self._write(early, task)
            case _ if event.task in self._runs:
                self._write(event, event.task)
            case _:
                self._early.setdefault(event.task, []).append(event)

    def _open(self, event: Started) -> None:
        run = self._runs[event.task] = self._folder / event.run
        (run / "sketches").mkdir(parents=True, exist_ok=True)
        planned = self._planned.get(event.task)
        # The best so far is no part of what is searched.
        begun = msgspec.structs.replace(event, best=None)
        known = msgspec.to_builtins(begun) | ({} if planned is None else msgspec.to_builtins(planned))
        text = known.pop("text", "")
        del known["best"]
        (run / "task.json").write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=2))
        (run / "program.ms").write_text(text)

    def _write(self, event: Event, task: str) -> None:
        run = self._runs[task]
        match event:
            case Sketched(number=number, text=text):
                (run / "sketches" / f"{number}.ms").write_text(text)
            case Trial():
                _append(run / "trials.jsonl", as_builtins(event))
            case Generation():
                _append(run / "generations.jsonl", as_builtins(event))
            case _:
                _append(run / "events.jsonl", as_builtins(event))


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")
