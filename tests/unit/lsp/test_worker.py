"""The process that schedules run in may hang or die; the next job has a new one."""

import asyncio
import math
import os
import time

import pytest

pytest.importorskip("pygls")

from mslang_lsp.worker import Worker, WorkerFailed


def test_a_hanging_job_is_killed_and_the_next_one_answers() -> None:
    async def go() -> None:
        worker = Worker(seconds=1.0)
        try:
            assert await worker.run(math.floor, 2.5) == 2
            with pytest.raises(WorkerFailed, match="more than 1 s"):
                await worker.run(time.sleep, 60)
            assert await worker.run(math.floor, 3.5) == 3
        finally:
            worker.stop()

    asyncio.run(go())


def test_a_dying_job_is_said_and_the_next_one_answers() -> None:
    async def go() -> None:
        worker = Worker(seconds=20.0)
        try:
            with pytest.raises(WorkerFailed, match="status 7"):
                await worker.run(os._exit, 7)
            assert await worker.run(math.floor, 3.5) == 3
        finally:
            worker.stop()

    asyncio.run(go())
