from pathlib import Path

import pytest

from mslang import resources


def test_the_grammar_is_found_in_a_checkout() -> None:
    assert "start: item*" in resources.grammar_text()


def test_an_installed_copy_is_found_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mslang"
    for folder in (package / "_data" / "grammar", package / "_data" / "stdlib", tmp_path / "grammar"):
        folder.mkdir(parents=True)
    (package / "_data" / "grammar" / "ms.lark").write_text("installed")
    monkeypatch.setattr(resources, "_PACKAGE", package)
    assert resources.grammar_text() == "installed"
    assert resources.stdlib_folder() == package / "_data" / "stdlib"


def test_a_missing_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "mslang")
    with pytest.raises(FileNotFoundError, match="grammar"):
        resources.resource_folder("grammar")
