"""The harness over TVM's schedule tests, on a checkout made up here."""

import tracemalloc

import numpy as np
import pytest

from benchmarks.tvm_suite.__main__ import summary, table
from benchmarks.tvm_suite.comparing import close
from benchmarks.tvm_suite.running import FOLDER, PREFIX, findings

TEXT = """
import pytest
import tvm
from tvm import relax
from tvm.s_tir.schedule.testing import verify_trace_roundtrip
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def doubled(a: T.Buffer((24,), "float32"), b: T.Buffer((24,), "float32")):
    for i in range(24):
        with T.sblock("twice"):
            v = T.axis.spatial(24, i)
            b[v] = a[v] * 2.0


@T.prim_func(s_tir=True)
def tiled(a: T.Buffer((24,), "float32"), b: T.Buffer((24,), "float32")):
    for i0, i1 in T.grid(4, 6):
        with T.sblock("twice"):
            v = T.axis.spatial(24, i0 * 6 + i1)
            b[v] = a[v] * 2.0


@T.prim_func(s_tir=True)
def tripled(a: T.Buffer((24,), "float32"), b: T.Buffer((24,), "float32")):
    for i0, i1 in T.grid(4, 6):
        with T.sblock("twice"):
            v = T.axis.spatial(24, i0 * 6 + i1)
            b[v] = a[v] * 3.0


def test_tiles():
    s = tvm.s_tir.Schedule(doubled, debug_mask="all")
    (loop,) = s.get_loops(s.get_sblock("twice"))
    s.split(loop, factors=[None, 6])
    tvm.ir.assert_structural_equal(s.mod["main"], tiled)
    verify_trace_roundtrip(sch=s, mod=doubled)


def test_another_program():
    s = tvm.s_tir.Schedule(doubled)
    tvm.ir.assert_structural_equal(s.mod["main"], tripled)


def test_refuses():
    s = tvm.s_tir.Schedule(doubled)
    with pytest.raises(tvm.s_tir.ScheduleError):
        s.compute_inline("twice")


def test_does_not_refuse():
    s = tvm.s_tir.Schedule(doubled)
    with pytest.raises(tvm.s_tir.ScheduleError):
        s.split(s.get_loops("twice")[0], factors=[None, 6])


def test_made_by_tvm():
    s = tvm.s_tir.Schedule(relax.BlockBuilder().get())
    tvm.ir.assert_structural_equal(s.mod["main"], tiled)
"""

WANTED = {
    "test_tiles": ("pair", ("same form", "same meaning")),
    "test_another_program": ("pair", ("different",)),
    "test_refuses": ("rejection", ("refused as expected",)),
    "test_does_not_refuse": ("rejection", ("accepted",)),
    "test_made_by_tvm": ("pair", ("not portable",)),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout")
    (folder / FOLDER).mkdir(parents=True)
    (folder / FOLDER / f"{PREFIX}tiny.py").write_text(TEXT, encoding="utf-8")
    return {f.test: f for f in findings(folder)}


@pytest.mark.parametrize("test", WANTED)
def test_findings(found, test):
    kind, outcomes = WANTED[test]
    assert found[test].file == "tiny"
    assert found[test].kind == kind
    assert found[test].outcome in outcomes


def test_figures(found):
    assert summary(list(found.values()), "pair").startswith("pairs: 1 of 3 reproduced (33 % of all, 50 % of the 2 ")
    assert "| `tiny` | 1 of 3 | 1 | 1 of 2 |  |" in table(list(found.values()))


def test_equal_arrays_are_compared_without_copies_of_them():
    a = np.arange(1 << 20, dtype=np.float32)
    b = a.copy()
    tracemalloc.start()
    assert close(a, b)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= a.nbytes
    b[3] = np.nan
    assert not close(a, b)
    a[3] = np.nan
    assert close(a, b)
