"""Neovim, really started: it opens files, marks an illegal statement, completes, and shows the program at the cursor.

Every `nvim` on the path is driven, and the one beside this Python, which the extra `test-editors` brings.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

from tests.e2e.conftest import GEMM, command

PLUGIN = Path(__file__).parents[2] / "lsp" / "editors" / "neovim"

ILLEGAL = GEMM.replace("    j1.vectorize()", "    mm.k.parallel()")


def installed() -> list[str]:
    """The Neovims of this machine, each once."""
    folders = [str(Path(sys.executable).parent), *os.get_exec_path()]
    found = dict.fromkeys(str(Path(p).resolve()) for f in folders if (p := shutil.which("nvim", path=f)) is not None)
    return list(found)


def version(program: str) -> str:
    first = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return first.removeprefix("NVIM v")


PROGRAMS = {version(program): program for program in installed()}

pytestmark = [
    pytest.mark.skipif(not PROGRAMS, reason="there is no nvim here: pip install '.[test-editors]'"),
    pytest.mark.skipif(sys.platform == "win32", reason="Neovim listens on a socket file here"),
]


class Neovim:
    """A headless Neovim that gets keys and answers expressions."""

    def __init__(self, program: str, folder: Path, lua: str = "") -> None:
        self.program, self.folder = program, folder
        (folder / "home").mkdir()
        self.socket = str(folder / "socket")
        cmd = ", ".join(json.dumps(word) for word in command("lsp"))
        init = folder / "init.lua"
        init.write_text(
            f"vim.g.mslang_command = {{ {cmd} }}\n{lua}\nvim.opt.runtimepath:append({json.dumps(str(PLUGIN))})\n"
            "vim.o.swapfile = false\nvim.o.completeopt = 'menuone,noinsert'\n"
        )
        home = {"HOME": str(folder / "home"), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "XDG_STATE_HOME": ""}
        self.process = subprocess.Popen(
            [program, "--headless", "--listen", self.socket, "-u", str(init)],
            cwd=folder,
            env={**os.environ, **{k: v or str(folder / "home") for k, v in home.items()}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.until(lambda: Path(self.socket).exists())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def keys(self, text: str) -> None:
        """Type, in Vim's notation."""
        self._remote("--remote-send", text)

    def ask(self, expression: str) -> Any:
        """The value of a Vim expression."""
        return json.loads(self._remote("--remote-expr", f"json_encode({expression})"))

    def lua(self, expression: str) -> Any:
        """The value of a Lua expression."""
        return self.ask("luaeval('" + expression.replace("'", "''") + "')")

    def open(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        self.keys(f":edit {name}<CR>")
        self.until(lambda: self.ask("expand('%:t')") == name)

    def until(self, wanted: Callable[[], Any], seconds: float = 90) -> Any:
        """The first true value of `wanted`."""
        deadline = time.monotonic() + seconds
        while not (found := wanted()):
            if time.monotonic() > deadline:
                said = self.ask("execute('messages')")
                raise AssertionError(f"never: {said}")
            time.sleep(0.1)
        return found

    def _remote(self, flag: str, text: str) -> str:
        done = subprocess.run(
            [self.program, "--server", self.socket, flag, text], capture_output=True, text=True, timeout=60
        )
        return done.stdout or done.stderr

    def marks(self) -> list[dict[str, Any]]:
        """The diagnostics of the buffer."""
        return self.lua("vim.diagnostic.get(0)") or []

    def shown(self) -> str:
        """The text of the window with the program."""
        return "\n".join(self.ask("getbufline(winbufnr(winnr('$')), 1, '$')"))


@pytest.fixture(params=PROGRAMS or ["none"], scope="module")
def program(request: pytest.FixtureRequest) -> str:
    return PROGRAMS[request.param]


@pytest.fixture
def neovim(program: str, tmp_path: Path) -> Iterator[Neovim]:
    editor = Neovim(program, tmp_path)
    yield editor
    editor.close()


def test_an_illegal_statement_is_marked_as_it_is_typed(neovim: Neovim) -> None:
    neovim.open("gemm.ms", GEMM)
    assert neovim.ask("&filetype") == "mslang"
    neovim.keys("/vectorize<CR>cckk<Esc>u")
    assert "j1.vectorize()" in neovim.ask("getline('.')")
    assert neovim.marks() == []
    neovim.keys("ccmm.k.parallel()<Esc>")
    found = neovim.until(neovim.marks)
    line = GEMM[: GEMM.index("    j1.vectorize()")].count("\n")
    assert {d["lnum"] for d in found} == {line}
    assert any("cannot be concurrent" in d["message"] or "parallel" in d["message"] for d in found)
    neovim.keys("u")
    neovim.until(lambda: not neovim.marks())


def test_it_is_marked_when_the_file_is_opened(neovim: Neovim) -> None:
    neovim.open("illegal.ms", ILLEGAL)
    found = neovim.until(neovim.marks)
    assert {d["lnum"] for d in found} == {ILLEGAL[: ILLEGAL.index("    mm.k.parallel()")].count("\n")}


def test_completion(neovim: Neovim) -> None:
    neovim.open("gemm.ms", GEMM)
    neovim.until(lambda: neovim.ask("&omnifunc"))
    neovim.keys("/vectorize<CR>ccj1.vec")
    neovim.until(lambda: neovim.ask("mode()") == "i")
    neovim.keys("<C-x><C-o>")
    words = neovim.until(lambda: [item["word"] for item in neovim.ask("complete_info(['items'])")["items"]])
    assert words == ["vectorize"]
    neovim.keys("<C-y>()<Esc>")
    neovim.until(lambda: neovim.ask("getline('.')").strip() == "j1.vectorize()")


def test_rename_and_references(neovim: Neovim) -> None:
    (neovim.folder / "user.ms").write_text('use "./gemm.ms".{gemm}\nschedule other for gemm { mm.i.parallel() }\n')
    neovim.open("gemm.ms", GEMM)
    neovim.until(lambda: neovim.ask("&omnifunc"))
    neovim.keys("/block mm<CR>w:lua vim.lsp.buf.rename('product')<CR>")
    neovim.until(lambda: "block product[" in neovim.ask("getline('.')"))
    text = "\n".join(neovim.ask("getline(1, '$')")) + "\n"
    assert text == re.sub(r"\bmm\b", "product", GEMM)
    # The file that was closed is open now, edited and not saved.
    assert "product.i.parallel()" in neovim.until(lambda: neovim.ask("getbufline('user.ms', 2)"))[0]
    neovim.keys(":lua vim.lsp.buf.references()<CR>")
    places = neovim.until(lambda: neovim.ask("getqflist()"))
    assert len(places) == len(re.findall(r"\bmm\b", GEMM)) + 1
    # A refusal is a message, and nothing is edited.
    neovim.keys(":cclose<CR>/product\\[i<CR>wl:lua vim.lsp.buf.rename('j')<CR>")
    neovim.until(lambda: "cannot rename `i` to `j`" in neovim.ask("execute('messages')"))
    assert "\n".join(neovim.ask("getline(1, '$')")) + "\n" == text


def test_the_program_follows_the_cursor(neovim: Neovim) -> None:
    neovim.open("gemm.ms", GEMM)
    neovim.keys("/let i0<CR>")
    neovim.until(lambda: neovim.ask("&omnifunc"))
    neovim.keys(":MslangProgram<CR>")
    text = neovim.until(lambda: (shown := neovim.shown()) and "# The trace so far:" in shown and shown)
    assert "for i0 in" in text and "j0" not in text
    neovim.keys("j")
    neovim.until(lambda: "j0" in neovim.shown())
    neovim.keys("gg")
    neovim.until(lambda: "not in a schedule" in neovim.shown())


@pytest.mark.parametrize(
    ("text", "type"),
    [("", "mslang"), ("# note\n", "mslang"), (".TH X 1\n", "nroff"), ('\n.\\" x\n', "nroff"), ("use a.b\n", "mslang")],
)
def test_file_types(neovim: Neovim, text: str, type: str) -> None:
    if text:
        neovim.open("new.ms", text)
    else:
        neovim.keys(":edit new.ms<CR>")
    neovim.until(lambda: neovim.ask("&filetype") == type)
    if type == "mslang":
        assert neovim.ask("&commentstring").replace(" ", "") == "#%s"
        assert neovim.ask("[&syntax, &shiftwidth, &expandtab]") == ["mslang", 4, 1]


def test_indentation_and_colours(neovim: Neovim) -> None:
    neovim.open("gemm.ms", GEMM)
    neovim.keys("Goschedule s for gemm {<CR>mm.i.parallel() # a {<CR>fork {<CR>case x {<CR>}<CR>}<CR>}<Esc>")
    lines = [
        "schedule s for gemm {",
        "    mm.i.parallel() # a {",
        "    fork {",
        "        case x {",
        "        }",
        "    }",
        "}",
    ]
    neovim.until(lambda: neovim.ask("getline(line('$') - 6, '$')") == lines)
    groups = neovim.ask("map([1, 3], {_, c -> synIDattr(synID(1, c, 1), 'name')})")
    assert groups[0] == "mslangDeclaration"
