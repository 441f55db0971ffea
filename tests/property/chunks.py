"""Campaigns in chunks: each in a process of its own, its results kept in a file, so that a run can be continued."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tests.property.campaign import campaign
from tests.property.tally import Fault, Tally, read

CODE = (
    *(f"mslang/{name}" for name in ("backend", "ir", "kernel", "lower", "ops", "runtime", "schedule", "sema")),
    *(f"mslang/{name}" for name in ("syntax", "target", "transform")),
    *(f"mslang/{name}.py" for name in ("__init__", "brevity", "caching", "diagnostics", "extensions", "notebook")),
    *(f"mslang/{name}.py" for name in ("rendering", "resources", "suggestions")),
    "tests/property",
)
"""What a pair runs: results under one state of it are those of one campaign."""

PAIR_LIMIT = 300.0
"""So many seconds may a pair take, on a machine that does other things, too."""


class Chunk(msgspec.Struct, frozen=True):
    """Consecutive pairs of a generator."""

    generator: str
    seed: int
    first: int
    count: int


class Result(msgspec.Struct, frozen=True):
    """A chunk that was run, by which commit, in how many seconds; `code` is the same for commits that differ in other
    files than those that are tested, and test."""

    chunk: Chunk
    commit: str
    seconds: float
    tally: Tally
    code: str = ""


def chunks(seed: int, pairs: int, size: int, generators: Sequence[str]) -> list[Chunk]:
    """The chunks of so many pairs, shared out among the generators in turns."""
    each = -(-pairs // len(generators))
    return [
        Chunk(generator, seed, first, min(size, each - first))
        for first in range(0, each, size)
        for generator in generators
    ]


def kept(path: Path) -> list[Result]:
    """The results in a file; a last line that was cut off is left out."""
    if not path.exists():
        return []
    found: list[Result] = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(read(line, Result))
        except msgspec.DecodeError:
            continue
    return found


def keep(path: Path, result: Result) -> None:
    """Add a result to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
    with path.open("ab") as file:
        file.write((b"" if whole else b"\n") + msgspec.json.encode(result) + b"\n")


def condense(path: Path) -> None:
    """Make one line of the results of consecutive pairs in a file, so that it can be kept in a repository."""
    lines = b"".join(msgspec.json.encode(result) + b"\n" for result in merged(kept(path)))
    if lines:
        beside = path.with_name(f"{path.name}.new")
        beside.write_bytes(lines)
        beside.replace(path)


def merged(results: Iterable[Result]) -> list[Result]:
    """The results, those of consecutive pairs under the same code as one; it names the last commit."""
    made: list[Result] = []
    for result in sorted(results, key=lambda r: (r.chunk.generator, r.chunk.seed, r.code, r.chunk.first)):
        last = made[-1] if made else result
        ahead = replace(last.chunk, first=last.chunk.first + last.chunk.count, count=result.chunk.count)
        if (ahead, last.code) != (result.chunk, result.code):
            made.append(result)
            continue
        tally = Tally()
        tally.add(last.tally)
        tally.add(result.tally)
        whole = replace(last.chunk, count=last.chunk.count + result.chunk.count)
        made[-1] = replace(result, chunk=whole, seconds=last.seconds + result.seconds, tally=tally)
    return made


def left(wanted: Iterable[Chunk], results: Sequence[Result]) -> list[Chunk]:
    """The chunks that no result holds."""

    def holds(result: Result, chunk: Chunk) -> bool:
        have = result.chunk
        inside = have.first <= chunk.first and chunk.first + chunk.count <= have.first + have.count
        return inside and (have.generator, have.seed) == (chunk.generator, chunk.seed)

    return [chunk for chunk in wanted if not any(holds(r, chunk) for r in results)]


class _Running:
    """A chunk in a process, and what is known of it."""

    def __init__(self, chunk: Chunk, check: Callable[[Chunk, int], Tally], limit: float) -> None:
        self.limit = limit
        self.chunk, self.check = chunk, check
        self.tally, self.next = Tally(), chunk.first
        self.began = time.monotonic()
        self._start()

    def _start(self) -> None:
        context = get_context("fork")
        self.pipe, theirs = context.Pipe(duplex=False)
        numbers = range(self.next, self.chunk.first + self.chunk.count)
        self.process: ForkProcess = context.Process(target=_work, args=(theirs, self.chunk, numbers, self.check))
        self.process.start()
        theirs.close()
        self.heard = time.monotonic()

    @property
    def done(self) -> bool:
        """Whether every pair has a result."""
        return self.next == self.chunk.first + self.chunk.count

    def hear(self) -> None:
        """Take the result of a pair, or the death of the process for one."""
        try:
            self.tally.add(read(self.pipe.recv_bytes(), Tally))
            self.next += 1
            self.heard = time.monotonic()
        except EOFError:
            self.process.join()
            self._lost(_ending(self.process.exitcode))
        if self.done:
            self.process.join()
            self.pipe.close()

    def overdue(self) -> None:
        """End a pair that takes too long."""
        if not self.done and time.monotonic() - self.heard > self.limit:
            self.process.kill()
            self.process.join()
            self._lost(f"no result after {self.limit:.0f} s")

    def _lost(self, what: str) -> None:
        self.tally.add(Tally(pairs=1, faults=[Fault(self.next, what, (), "", self.chunk.generator)]))
        self.next += 1
        self.pipe.close()
        if not self.done:
            self._start()


def _ending(code: int | None) -> str:
    return f"the process died of {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit {code}"


def check_one(chunk: Chunk, number: int) -> Tally:
    """The result of one pair of a chunk."""
    return campaign(chunk.seed, (number,), generator=chunk.generator)


def _work(pipe: Connection, chunk: Chunk, numbers: Iterable[int], check: Callable[[Chunk, int], Tally]) -> None:
    for number in numbers:
        pipe.send_bytes(msgspec.json.encode(check(chunk, number)))


def run(
    todo: Sequence[Chunk],
    processes: int,
    commit: str,
    check: Callable[[Chunk, int], Tally] = check_one,
    limit: float = PAIR_LIMIT,
    code: str = "",
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Result]:
    """Run chunks, each in a process, and give the results as they are complete; `check` may take `limit` seconds.

    No chunk begins after `stop` says so.
    """
    waiting: list[Chunk] = list(reversed(todo))
    running: list[_Running] = []
    while waiting or running:
        if stop():
            waiting.clear()
        while waiting and len(running) < processes:
            running.append(_Running(waiting.pop(), check, limit))
        ready = wait([r.pipe for r in running], timeout=5)
        for r in list(running):
            if r.pipe in ready:
                r.hear()
            else:
                r.overdue()
            if r.done:
                running.remove(r)
                yield Result(r.chunk, commit, time.monotonic() - r.began, r.tally, code)
