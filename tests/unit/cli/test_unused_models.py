"""A cost model or features that the strategy would not use are refused; what is not asked for never is."""

from pathlib import Path

import pytest

from mslang.cli.main import main

TEXT = """program p(A: f32[4096], out C: f32[4096]) { block a[i: 4096] { C[i] = A[i] + 1.0 } }
schedule s for p { let t ~ choose([2, 4, 8]) let i0, i1 = a.i.split([_, t]) i1.unroll() }
"""
TUNE = ("tune", "p.ms", "--trials", "2", "--workers", "1", "--quiet", "--no-log")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.ms").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize("strategy", ["replay_trace", "replay_schedule"])
@pytest.mark.parametrize("asked", [("--cost-model", "draft"), ("--features", "per-store")])
def test_what_the_strategy_does_not_use_is_wrong_use(
    strategy: str, asked: tuple[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TUNE, "--strategy", strategy, *asked]) == 2
    said = capsys.readouterr().err
    assert f"error[MS701]: `{' '.join(asked)}` has no effect: the strategy `{strategy}` does not rank" in said
    assert "leave it out, or search with `auto`, `evolutionary` or `exhaustive`" in said
    assert not (folder / ".mslang").exists()


@pytest.mark.parametrize(
    "words",
    [("--cost-model", "draft"), ("--strategy", "exhaustive", "--cost-model", "random"), ("--strategy", "replay_trace")],
    ids=["auto in a small space", "exhaustive", "no model asked for"],
)
def test_a_model_that_is_used_and_defaults_are_accepted(words: tuple[str, ...]) -> None:
    assert main([*TUNE, *words]) == 0
