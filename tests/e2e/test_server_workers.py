"""The server's worker processes: killed, cancelled, or out of memory, and previews and trial runs still come."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from tests.e2e.conftest import GEMM
from tests.e2e.test_server import line_of
from tests.e2e.wire import Json, Wire

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

PLACE = line_of(GEMM, "let j0, j1")

LONG = """    for q in 0..400 {
        mm.i.annotate("step", q)
    }
"""


def workers(wire: Wire) -> set[int]:
    """The worker processes of a server."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == wire.process.pid:
            found.add(int(folder.name))
    return found


def preview(wire: Wire, uri: str, seed: int) -> Json:
    answer: Json = wire.at("mslang/irAt", uri, *PLACE, seed=seed)
    return answer


def test_previews_and_trial_runs_come_back_after_workers_were_killed(tmp_path: Path) -> None:
    with Wire(tmp_path) as wire:
        wire.initialize()
        uri = wire.open("killed.ms", GEMM)
        assert preview(wire, uri, 0)["after"]
        for seed in (1, 2):
            assert workers(wire)
            for process in workers(wire):
                os.kill(process, signal.SIGKILL)
            assert "j0 in" in preview(wire, uri, seed)["after"]
        for process in workers(wire):
            os.kill(process, signal.SIGKILL)
        wire.change(uri, 2, {"text": GEMM.replace("j1.vectorize()", "mm.k.parallel()")})
        assert wire.findings(uri, bool)
        assert wire.process.poll() is None


def test_a_preview_that_needs_too_much_memory_or_time_says_so(tmp_path: Path) -> None:
    text = GEMM.replace(
        "    j1.vectorize()", "    for q in 0..1000000000 {\n        let x = q\n    }\n    j1.vectorize()"
    )
    with Wire(tmp_path) as wire:
        wire.initialize()
        uri = wire.open("range.ms", text)
        answer = wire.at("mslang/irAt", uri, *line_of(text, "    j1.vectorize()"), seed=0)
        assert answer["error"]
        assert workers(wire) and all(peak(process) < 3 << 30 for process in workers(wire))
        uri = wire.open("small.ms", GEMM)
        assert preview(wire, uri, 0)["after"]


def peak(process: int) -> int:
    """The largest resident size of a process in bytes."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(x.split()[1]) << 10 for x in lines if x.startswith("VmHWM")), 0)


def test_cancelled_previews_are_not_run(tmp_path: Path) -> None:
    with Wire(tmp_path) as wire:
        wire.initialize()
        uri = wire.open("cancelled.ms", GEMM.replace("    fork threads", LONG + "    fork threads"))
        place = {"textDocument": {"uri": uri}, "position": {"line": 20, "character": 4}}
        assert wire.ask("mslang/irAt", place)["after"]
        started = time.monotonic()
        wire.answer(wire.send("mslang/irAt", {**place, "seed": 1}))
        one = time.monotonic() - started
        started = time.monotonic()
        asked = [wire.send("mslang/irAt", {**place, "seed": seed}) for seed in range(100, 160)]
        for id in asked:
            wire.notify("$/cancelRequest", {"id": id})
        last = wire.send("mslang/irAt", {**place, "seed": 1})
        assert wire.answer(last)["result"]["after"]
        took = time.monotonic() - started
        assert {wire.answer(id)["error"]["code"] for id in asked} == {-32800}
        # Run one after the other they would take 60 times as long as one.
        assert took < 20 * max(one, 0.2), (took, one)
