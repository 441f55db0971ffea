"""Extensions of installed packages: none is loaded unless its package was allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import mslang as ms
from mslang import extensions
from mslang.diagnostics import MsError
from mslang.extensions import RULES, allowed, allowing, load, loaded


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package whose module leaves a file when it is imported."""
    info = tmp_path / "my_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mslang.rules]\nnumber = rules_module:NUMBER\nbroken = no_module:X\n")
    (tmp_path / "rules_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nNUMBER = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()


def test_nothing_of_a_package_runs_unless_it_is_allowed(package: Path) -> None:
    with pytest.raises(MsError) as refused:
        load(RULES, "number", allowed(), int)
    assert refused.value.diagnostic.code == "MS272"
    assert "--extension my-rules" in (refused.value.diagnostic.help or "")
    assert loaded(RULES, int, allowed()) == ()
    assert not (package / "ran").exists()


def test_an_allowed_package_is_loaded_when_asked_for(package: Path) -> None:
    with ms.allowing("my-rules"):
        assert not (package / "ran").exists()
        assert load(RULES, "number", allowed(), int) == 5
        assert (package / "ran").exists()
    assert allowed() == frozenset()


def test_what_is_wrong_with_an_extension_is_said(package: Path) -> None:
    with allowing("my-rules"):
        for name, kind, code in (("numbr", int, "MS271"), ("number", str, "MS212"), ("broken", int, "MS212")):
            with pytest.raises(MsError) as refused:
                load(RULES, name, allowed(), kind)
            assert refused.value.diagnostic.code == code
    with pytest.raises(MsError) as refused, allowing("my-rulez"):
        pass
    assert refused.value.diagnostic.code == "MS270" and "my-rules" in (refused.value.diagnostic.help or "")
