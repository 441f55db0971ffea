"""What the server keeps between requests: previews that wait or have failed, findings of trial runs."""

import asyncio
import time
from collections.abc import Callable

import pytest

pytest.importorskip("pygls")

from mslang_lsp.server import _ir_at, make_server
from mslang_lsp.session import MslangServer
from mslang_lsp.worker import Worker, WorkerFailed
from pygls.exceptions import JsonRpcInvalidParams

from mslang.diagnostics import problem
from mslang.ide.snapshot import Snapshot

PATH = "/project/sample.ms"

TEXT = """program p(A: f32[64], out C: f32[64]) {
    block b[i: 64] { C[i] = A[i] }
}

schedule one for p { b.i.parallel() }

schedule two for p { b.i.vectorize() }
"""


class Stub:
    """A worker that counts its jobs and answers each with the same result or failure."""

    def __init__(self, answer: Callable[[], object]) -> None:
        self.answer = answer
        self.jobs = 0

    async def run(self, doing: str, job: object, *args: object, patience: float | None = None) -> object:
        self.jobs += 1
        return self.answer()


def server_of(text: str) -> MslangServer:
    server = make_server()
    server.snapshot = Snapshot({PATH: text})
    return server


def test_a_hover_that_gave_up_leaves_no_preview_behind() -> None:
    async def main() -> None:
        server = server_of(TEXT)
        worker = server._previews = Worker(60.0)
        try:
            running = asyncio.ensure_future(worker.run("the preview", time.sleep, 1.5))
            await asyncio.sleep(0.1)
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await server.show(PATH, TEXT.index("b.i"), 0.1)
            await asyncio.sleep(0.1)
            assert not running.done() and not server._jobs
            running.cancel()
        finally:
            worker.stop()

    asyncio.run(main())


def test_a_preview_that_failed_is_not_run_again_for_each_hover() -> None:
    def too_long() -> object:
        raise WorkerFailed(problem("MS290", "the preview took more than 10 s"), transient=False)

    async def main() -> None:
        server, place = server_of(TEXT), TEXT.index("b.i")
        stub = server._previews = Stub(too_long)  # type: ignore[assignment]

        async def asked(offset: int, seconds: float | None = 1.0) -> int:
            with pytest.raises(WorkerFailed, match="more than 10 s"):
                await server.show(PATH, offset, seconds)
            await asyncio.sleep(0)
            return stub.jobs

        assert [await asked(place) for _ in range(3)] == [1, 1, 1]
        assert await asked(place, None) == 2  # who asks for the program gets it run
        assert await asked(TEXT.index("b.i.vec")) == 3  # another schedule may be faster
        server.reread()
        assert await asked(place) == 4

    asyncio.run(main())


def test_trial_findings_of_items_that_are_gone_are_forgotten() -> None:
    async def main() -> None:
        server = server_of(TEXT)
        server._runner = Stub(tuple)  # type: ignore[assignment]
        await server._run_trials(PATH)
        assert {name for _, name in server._trials} == {"one", "two"}
        server.snapshot = Snapshot({PATH: TEXT.replace("schedule two", "schedule three")})
        await server._run_trials(PATH)
        assert {name for _, name in server._trials} == {"one", "three"}

    asyncio.run(main())


@pytest.mark.parametrize("pin", [[[1, 2], [3]], [{"x": 1}], ["4"]])
def test_a_pin_is_no_nested_list(pin: object) -> None:
    params = {
        "textDocument": {"uri": "file:///project/sample.ms"},
        "position": {"line": 4, "character": 22},
        "pins": {"t": pin},
    }
    with pytest.raises(JsonRpcInvalidParams, match="a pin is a number, a list of numbers or text"):
        asyncio.run(_ir_at(server_of(TEXT), params))
