"""The process that schedules run in may hang, die or be cancelled; the next job is answered."""

import asyncio
import math
import os
import signal
import time
from collections.abc import Awaitable, Callable

import pytest

pytest.importorskip("pygls")

from mslang_lsp.worker import Worker, WorkerFailed


def with_worker(go: Callable[[Worker], Awaitable[None]], seconds: float = 60.0, memory: int | None = None) -> None:
    async def main() -> None:
        worker = Worker(seconds, memory)
        try:
            await go(worker)
        finally:
            worker.stop()

    asyncio.run(main())


async def process_of(worker: Worker) -> int:
    return await worker.run("asking", os.getpid)


def test_a_hanging_job_is_killed_and_the_next_one_answers() -> None:
    async def go(worker: Worker) -> None:
        with pytest.raises(WorkerFailed, match="the preview took more than 1 s"):
            await worker.run("the preview", time.sleep, 60)
        assert await worker.run("the preview", math.floor, 3.5) == 3

    with_worker(go, seconds=1.0)


def test_a_dying_job_is_reported_and_the_next_one_answers() -> None:
    async def go(worker: Worker) -> None:
        with pytest.raises(WorkerFailed, match="status 7") as failed:
            await worker.run("the preview", os._exit, 7)
        assert failed.value.transient
        assert await worker.run("the preview", math.floor, 3.5) == 3

    with_worker(go)


@pytest.mark.parametrize("busy", [False, True])
def test_a_process_that_is_killed_from_outside_is_replaced(busy: bool) -> None:
    async def go(worker: Worker) -> None:
        for _ in range(3):
            process = await process_of(worker)
            job = asyncio.ensure_future(worker.run("the preview", time.sleep, 60)) if busy else None
            await asyncio.sleep(0.3)
            os.kill(process, signal.SIGKILL)
            if job is not None:
                with pytest.raises(WorkerFailed, match="SIGKILL"):
                    await job
            assert await process_of(worker) != process

    with_worker(go)


def test_a_job_that_needs_too_much_memory_fails_alone() -> None:
    async def go(worker: Worker) -> None:
        with pytest.raises(WorkerFailed, match="ran out of memory") as failed:
            await worker.run("the preview", bytes, 1 << 30)
        assert not failed.value.transient
        assert await worker.run("the preview", math.floor, 3.5) == 3

    with_worker(go, memory=1 << 28)


def test_a_cancelled_job_ends() -> None:
    async def go(worker: Worker) -> None:
        first = await process_of(worker)
        running = asyncio.ensure_future(worker.run("the preview", time.sleep, 60))
        waiting = [asyncio.ensure_future(worker.run("the preview", time.sleep, 60)) for _ in range(20)]
        await asyncio.sleep(0.3)
        for job in (running, *waiting):
            job.cancel()
        done = await asyncio.gather(running, *waiting, return_exceptions=True)
        assert all(isinstance(d, asyncio.CancelledError) for d in done)
        assert await asyncio.wait_for(process_of(worker), 50) != first

    with_worker(go)


def test_a_short_job_that_is_cancelled_leaves_the_process_as_it_is() -> None:
    async def go(worker: Worker) -> None:
        first = await process_of(worker)
        job = asyncio.ensure_future(worker.run("the preview", time.sleep, 0.1))
        await asyncio.sleep(0.05)
        job.cancel()
        assert await process_of(worker) == first

    with_worker(go)


def test_a_job_whose_turn_does_not_come_is_dropped() -> None:
    async def go(worker: Worker) -> None:
        first = await process_of(worker)
        running = asyncio.ensure_future(worker.run("the preview", time.sleep, 0.5))
        await asyncio.sleep(0.05)
        with pytest.raises(TimeoutError):
            await worker.run("the preview", os._exit, 7, patience=0.1)
        await running
        assert await worker.run("asking", os.getpid, patience=60.0) == first

    with_worker(go)
