"""The example of a user's own rule: its package runs only where it is allowed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_own_primitive import install

import mslang as ms
from mslang.sema.modules import load
from mslang.tune.equivalence import difference

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_rule"


@pytest.fixture
def mslang(tmp_path: Path):
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(EXAMPLE / "rows.ms", tmp_path)
    install(EXAMPLE, site)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "mslang", *words]
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)

    return run


def test_a_packages_rule_is_searched_where_it_is_allowed(mslang) -> None:
    refused = mslang("show", "rows.ms:searched", "--space")
    assert "is not loaded" in refused.stdout + refused.stderr
    shown = mslang("show", "rows.ms:searched", "--space", "--extension", "own-rule")
    assert shown.returncode == 0, shown.stderr
    assert "## `in_lanes:s` = lanes" in shown.stdout and "rfactor" in shown.stdout and "# refused" not in shown.stdout
    tuned = mslang("tune", "rows.ms:searched", "--trials", "3", "--extension", "own-rule")
    assert tuned.returncode == 0, tuned.stdout + tuned.stderr
    assert "not loaded; --extension own-rule allows it" in mslang("env").stdout


def test_a_packages_space_generator_takes_the_place_of_a_rule_set(mslang) -> None:
    refused = mslang("tune", "rows.ms:energy", "--rules", "rows_only", "--trials", "2")
    assert refused.returncode == 1 and "error[MS272]" in refused.stderr
    wrong = mslang("tune", "rows.ms:searched", "--rules", "rows_only")
    assert wrong.returncode == 2 and "--rules goes with a program" in wrong.stderr
    shown = mslang("show", "rows.ms:energy", "--space", "--rules", "rows_only", "--extension", "own-rule")
    assert shown.returncode == 0 and shown.stdout.count("## `in_lanes:s`") == 2, shown.stderr
    unknown = mslang("show", "rows.ms:energy", "--space", "--rules", "rows_onyl", "--extension", "own-rule")
    assert unknown.returncode == 1 and "error[MS273]" in unknown.stderr


ANNOTATED = """program energy[M = 64, N = 256](A: f32[M, N], out S: f32[M]) {
    block s[i: M | j: N] { attr "schedule_rule" = "in_lanes" S[i] += A[i, j] * A[i, j] }
}
space whole for energy = std.cpu.auto
"""


def test_a_packages_postprocessor_applies_to_every_automatic_space(mslang, tmp_path: Path) -> None:
    (tmp_path / "annotated.ms").write_text(ANNOTATED)
    for words in (["energy"], ["energy", "--rules", "quick"], ["whole"]):
        item, *rules = words
        shown = mslang("show", f"annotated.ms:{item}", "--space", *rules, "--extension", "own-rule")
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout.count("enter_postproc()") == 2
        assert 'require lanes * 256 <= 4096, "intermediate arrays take more than 4096 bytes"' in shown.stdout
    pins = ["--pin", "in_lanes:s=lanes", "--pin", "in_lanes:s/lanes=32", "--strict"]
    refused = mslang("show", "annotated.ms:whole", *pins, "--extension", "own-rule")
    assert refused.returncode == 1 and "intermediate arrays take more than 4096 bytes" in refused.stderr
    tuned = mslang(
        "tune", "annotated.ms:energy", "--rules", "cpu", "--trials", "4", "--json", "--extension", "own-rule"
    )
    assert tuned.returncode == 0, tuned.stdout + tuned.stderr
    events = [json.loads(line) for line in tuned.stdout.splitlines()]
    tried = {json.loads(e["decisions"]).get("in_lanes:s/lanes") for e in events if e["kind"] == "trial"}
    assert tried == {None, 8, 16}


def test_a_space_generator_that_gives_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    from mslang.diagnostics import MsError
    from mslang.schedule.rules import automatic

    program = ms.load(EXAMPLE / "rows.ms").program()
    monkeypatch.setattr(automatic, "declared", lambda group: {"broken": ()})
    monkeypatch.setattr(automatic, "load", lambda group, name, allowed, kind: lambda program, target: program)
    with pytest.raises(MsError, match="MS275"):
        automatic.space_named(program, ms.host(), "broken")


def test_it_means_the_same_from_python() -> None:
    sys.path.insert(0, str(EXAMPLE))
    try:
        from own_rule.lanes import in_lanes
    finally:
        sys.path.remove(str(EXAMPLE))
    program = ms.load(EXAMPLE / "rows.ms").program()
    assert load(str(EXAMPLE / "rows.ms")).programs
    space = ms.automatic_space(program, ms.host(), [in_lanes])
    assert [s.addresses for s in space.sketches()] == [("in_lanes:s",), ("in_lanes:s", "in_lanes:s/lanes")]
    for seed in range(4):
        assert difference(program, space.sample(seed).program, 1e-4, 1e-5, seed) is None
