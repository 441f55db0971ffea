"""Programs with a size that no array has as a dimension are run, compared and tuned: calls give it by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslang.backend.backend import Options
from mslang.backend.registry import serving
from mslang.cli.main import main
from mslang.sema.program import parse_program
from mslang.target.detect import host
from mslang.tune.call import bind
from mslang.tune.instances import Instance
from mslang.tune.job import PrepareJob, encode, prepare
from mslang.tune.record import Verification
from mslang.tune.verification import DENSE

GATHERED = """program gathered[M: dyn(1..64), N: dyn(1..9)](A: f32[N], out C: f32[N]) {
    block b[i: N] { C[i] = A[(i * M) % N] * f32(M) }
}
"""


def test_references_and_candidates_are_called_with_it(tmp_path: Path) -> None:
    program, sizes = parse_program(GATHERED), ({"M": 3, "N": 4}, {"M": 64, "N": 9})
    prepare(encode(PrepareJob(program, host(), str(tmp_path), seed=0, instances=tuple(map(Instance, sizes)))))
    kernel = serving(host()).loaded(program, host(), Options())
    calls = bind(program, kernel, str(tmp_path), DENSE)
    assert calls.calls == len(sizes)
    calls.bound.run()
    found = calls.check()
    assert isinstance(found, Verification) and found.max_error == 0


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gathered.ms"
    file.write_text(GATHERED)
    assert main(["run", f"{file}:gathered", "--at", "M=3,N=4"]) == 0
    assert "size      M = 3, N = 4" in capsys.readouterr().out
