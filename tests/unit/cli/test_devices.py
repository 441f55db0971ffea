"""Records of what runs on a device of this machine, a GPU: they are this machine's where the device is there."""

from pathlib import Path

import msgspec
import pytest

from mslang.backend.cuda.backend import CUDA
from mslang.backend.cuda.peak import Card
from mslang.cli.items import load_clean
from mslang.cli.main import main
from mslang.ir.equal import structural_hash
from mslang.report.gather import gather
from mslang.report.page import page
from mslang.runtime.timing import Timing
from mslang.schedule.strategies import space_of
from mslang.target.description import TARGETS
from mslang.target.machine import Machine, this_machine
from mslang.tune import database
from mslang.tune.database import Database, keys_here, machine_for
from mslang.tune.record import Outcome, Record, Result, Run
from mslang.tune.recording import texts_of
from mslang.tune.task import Task

FILE = """program twice(A: f32[256], out B: f32[256]) { block b[i: 256] { B[i] = A[i] * 2.0 } }
schedule gpu for twice on cuda {
    let n ~ choose([32, 64])
    let o, t = b.i.split([_, n])
    o.bind(blockIdx.x)
    t.bind(threadIdx.x)
}
"""
Captured = pytest.CaptureFixture[str]


def tuned(folder: Path, machine: Machine) -> Record:
    """The record of a candidate of `gpu` in the folder's store, as tuning on a machine makes it."""
    (folder / "f.ms").write_text(FILE)
    module = load_clean(folder / "f.ms")
    space = space_of(module, "gpu")
    candidate = space.sample(0, {"n": 64})
    workload = Task(space.program, space, TARGETS["cuda"], "f.ms").workload
    written, trace, decisions = texts_of(candidate, "twice_best")
    record = Record(
        workload.hash,
        "twice",
        "cuda",
        machine.name,
        CUDA.version(),
        structural_hash(candidate.program),
        written,
        trace,
        decisions,
        Result(Outcome.MEASURED, timing=Timing((1e-5,), 3)),
        "run",
        0,
        0,
        "0.1.0",
        machine=machine.key,
        source=workload.source,
    )
    with Database(folder / ".mslang" / "records.db") as store:
        store.add_workload(workload)
        store.add_machine(machine)
        store.add_run(
            Run("run", "f.ms", "gpu", workload.hash, "cuda", 0, "{}", machine=machine.key, source=workload.source)
        )
        return store.add(record)


def test_what_the_device_ran_is_shown_and_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    record = tuned(tmp_path, machine_for(CUDA))
    with Database(".mslang/records.db", read_only=True) as store:
        assert store.best(record.workload) == record and store.top(record.workload, target="cuda") == [record]
        assert [best for _, _, best in store.workloads()] == [record.seconds]
        text = page(gather(store), "r.db")
    assert "limits of the device are not known" in text and "made on another" not in text
    assert main(["db", "top"]) == 0 and "10 µs" in capsys.readouterr().out
    assert main(["db", "ls"]) == 0 and "10 µs" in capsys.readouterr().out
    assert main(["build", "f.ms:gpu", "-o", "k.cu"]) == 0
    assert capsys.readouterr().err == "gpu for cuda: record 1 (10 µs)\n"


def test_another_device_is_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(tmp_path)
    record = tuned(tmp_path, this_machine().with_device("a GPU that is no longer there"))
    with Database(".mslang/records.db", read_only=True) as store:
        assert store.best(record.workload) is None
        assert "made on another" in page(gather(store), "r.db")
    assert main(["db", "top"]) == 1
    assert "no record has a time of this machine" in capsys.readouterr().err
    assert main(["db", "top", "--machine", record.device]) == 0
    assert main(["build", "f.ms:gpu", "-o", "k.cu"]) == 0 and "no record" in capsys.readouterr().err


def test_devices_are_looked_for_only_where_records_of_one_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(name: str) -> None:
        pytest.fail(f"{name} is asked for its device")

    here = this_machine()
    monkeypatch.setattr(database, "back_end", never)
    other = msgspec.structs.replace(here, key="other").with_device("GPU")
    for known in ([], [here], [here, other], [here.with_runner("mine")]):
        assert keys_here(known) == (here.key,)


def test_what_is_known_of_the_device_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Those of an A100: 256 multiplications in 10 µs are next to none of 19.5 TFLOP/s."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mslang.backend.cuda.peak.card_of", lambda target: Card(80, 108, 1.41e9, 1.555e12))
    tuned(tmp_path, machine_for(CUDA))
    with Database(".mslang/records.db", read_only=True) as store:
        (found,) = gather(store)
        text = page([found], "r.db")
    assert "limits of the machine: 1555 GB/s, 1.949e+04 GFLOP/s" in text
    assert found.rated is not None and found.rated.core is None
    assert found.rated.scale.share(Timing((1e-5,), 3)) == pytest.approx(256 / 1e-5 / 19.49e12, rel=1e-3)
    assert main(["db", "show", "1"]) == 0
    assert "\n0.0256 GFLOP/s, 0 % of peak\n" in capsys.readouterr().out
