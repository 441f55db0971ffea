"""The reductions of softmax and of layer normalisation run as vectors."""

import pytest

from mslang.cli.main import main
from mslang.resources import stdlib_folder


def vectors(file: str, schedule: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    path = stdlib_folder() / "workloads" / f"{file}.ms"
    assert main(["show", f"{path}:{schedule}", "--set", "M=4", "--set", "N=64", "--stage", "llvm"]) == 0
    return [line for line in capsys.readouterr().out.splitlines() if "x float>" in line or "x i32>" in line]


@pytest.mark.parametrize(("file", "combine"), [("softmax", "icmp sgt"), ("softmax", "fadd"), ("layer_norm", "fadd")])
def test_partial_results_are_combined_as_vectors(file, combine, capsys):
    before, after = (vectors(file, s, capsys) for s in ("by_row", "rows_vectorized"))
    assert sum(combine in line for line in after) > sum(combine in line for line in before)
