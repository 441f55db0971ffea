"""Commands write a source file only if what they write parses and means the same; snapshots survive any text."""

from pathlib import Path

import pytest

from mslang.cli import fmt
from mslang.cli.main import main
from mslang.cli.source_files import write_source
from mslang.diagnostics import MsError

PROGRAM = "program p[N = 4](x: f32[N], out y: f32[N]) { block b[i: N] { y[i] = x[i] } }\n"
SCHEDULE = "schedule s for p { b.i.vectorize() }\n"


def refused(tmp_path: Path, after: str, **how: object) -> str:
    path = tmp_path / "p.ms"
    path.write_text(PROGRAM + SCHEDULE)
    with pytest.raises(MsError) as error:
        write_source(path, PROGRAM + SCHEDULE, after, **how)
    assert path.read_text() == PROGRAM + SCHEDULE and error.value.diagnostic.code == "MS707"
    return error.value.diagnostic.why or ""


def test_what_does_not_parse_is_not_written(tmp_path: Path) -> None:
    assert "would not parse" in refused(tmp_path, PROGRAM + "schedule s for p {")


def test_what_means_something_else_is_not_written(tmp_path: Path) -> None:
    assert "mean something else" in refused(tmp_path, PROGRAM + SCHEDULE.replace("vectorize", "parallel"))
    assert "mean something else" in refused(tmp_path, PROGRAM.replace("x[i]", "x[0]") + SCHEDULE, replaced=("s",))


def test_a_layout_loses_no_comment(tmp_path: Path) -> None:
    path = tmp_path / "p.ms"
    path.write_text(f"# kept\n{PROGRAM}")
    with pytest.raises(MsError, match="lose a comment"):
        write_source(path, path.read_text(), PROGRAM, layout=True)


def test_what_is_replaced_may_differ(tmp_path: Path) -> None:
    path = tmp_path / "p.ms"
    path.write_text(PROGRAM + SCHEDULE)
    write_source(path, PROGRAM + SCHEDULE, PROGRAM + SCHEDULE.replace("vectorize", "parallel"), replaced=("s",))
    assert "parallel" in path.read_text()


def test_a_formatter_gone_wrong_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.ms"
    path.write_text(PROGRAM)
    monkeypatch.setattr("mslang.syntax.format.format_text", lambda text: text.replace("x[i]", "x[N]"))
    assert main(["fmt", str(path)]) == 1 and "MS707" in capsys.readouterr().err and path.read_text() == PROGRAM
    assert fmt is not None


SNAPSHOTS = [
    ("p[2]", "program p("),
    ("sample(s, p[2])", "program p("),
    ("s", "s"),
    ('[1, "a", true]', "[1, a, true]"),
    ('"say \\"\\"\\" twice \\"\\"\\""', "say"),
    ('"ends in a quote \\""', "ends"),
    ('"a \\\\ backslash"', "backslash"),
]


@pytest.mark.parametrize(("value", "said"), SNAPSHOTS)
def test_an_updated_snapshot_parses_and_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str, said: str
) -> None:
    path = tmp_path / "p.ms"
    path.write_text(f'{PROGRAM}{SCHEDULE}test "snap" {{\n    let v = {value}\n    snapshot v ""\n}}\n')
    assert main(["test", "--samples", "0", "--update", str(path)]) == 0, capsys.readouterr()
    assert said in path.read_text()
    again = path.read_text()
    assert main(["test", "--samples", "0", str(path)]) == 0 and main(["check", str(path)]) == 0
    assert main(["test", "--samples", "0", "--update", str(path)]) == 0 and path.read_text() == again
