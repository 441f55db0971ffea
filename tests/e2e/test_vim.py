"""Vim, really started: file type, settings, indentation and colours of `.ms` files."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import GEMM

PLUGIN = Path(__file__).parents[2] / "lsp" / "editors" / "neovim"
VIM = shutil.which("vim")


def has_script() -> bool:
    """Whether this Vim can run scripts; the smallest builds cannot."""
    said = "" if VIM is None else subprocess.run([VIM, "--version"], capture_output=True, text=True).stdout
    return "+eval" in said and "+syntax" in said


pytestmark = pytest.mark.skipif(not has_script(), reason="there is no vim with +eval and +syntax here: install Vim 9")


def asked(tmp_path: Path, name: str, keys: str, expression: str) -> object:
    """The value of an expression after keys were typed into a file."""
    answer = tmp_path / "answer"
    commands = [
        "set nocompatible",
        f"set runtimepath+={PLUGIN}",
        "filetype plugin indent on",
        "syntax on",
        f"edit {tmp_path / name}",
        f'execute "normal {keys}"' if keys else "",
        f"call writefile([json_encode({expression})], '{answer}')",
        "qall!",
    ]
    script = tmp_path / "script.vim"
    script.write_text("\n".join(commands))
    subprocess.run(
        [str(VIM), "-N", "-u", "NONE", "-i", "NONE", "-n", "-es", "-S", str(script)],
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    return json.loads(answer.read_text())


@pytest.mark.parametrize(("text", "type"), [("", "mslang"), ("# x\n", "mslang"), (".TH X 1\n", "nroff")])
def test_file_types(tmp_path: Path, text: str, type: str) -> None:
    if text:
        (tmp_path / "a.ms").write_text(text)
    assert asked(tmp_path, "a.ms", "", "&filetype") == type


def test_settings_indentation_and_colours(tmp_path: Path) -> None:
    (tmp_path / "gemm.ms").write_text(GEMM)
    keys = r"Gofn f(b: block) {\<CR>b.i.parallel()\<CR>}\<Esc>"
    lines = ["fn f(b: block) {", "    b.i.parallel()", "}"]
    assert asked(tmp_path, "gemm.ms", keys, "getline(line('$') - 2, '$')") == lines
    assert asked(tmp_path, "gemm.ms", "", "[&commentstring, &shiftwidth, &syntax]") == ["# %s", 4, "mslang"]
    assert asked(tmp_path, "gemm.ms", "", "synIDattr(synID(1, 1, 1), 'name')") == "mslangDeclaration"
