"""The process that schedules run in may hang or die; the next job has a new one."""

import asyncio
import math
import os
import time

import pytest

pytest.importorskip("pygls")

from mslang_lsp.positions import Positions
from mslang_lsp.worker import Worker, WorkerFailed
from pygls.workspace import PositionCodec


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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_positions_there_and_back(encoding: str) -> None:
    text = "a\n🚀é x\r\n\nlast"
    positions = Positions(text, PositionCodec(encoding))
    for offset in range(len(text) + 1):
        assert positions.offset(positions.position(offset)) == offset
