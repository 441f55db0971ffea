"""VS Code, really started: code-server with the packaged extension, driven in headless Chromium.

`tests/e2e/vscode/install.sh` installs what is needed, beside Node.js and a Chromium of the system.
"""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

from tests.e2e.conftest import GEMM, command

HERE = Path(__file__).parent / "vscode"
SERVER = HERE / "node_modules" / "code-server" / "out" / "node" / "entry.js"
PACKAGE = Path(__file__).parents[2] / "lsp" / "editors" / "vscode" / "mslang.vsix"
NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

MISSING = [
    name
    for name, there in (
        ("node", NODE),
        ("chromium", CHROMIUM),
        ("code-server", SERVER.exists()),
        ("lsp/editors/vscode/mslang.vsix", PACKAGE.exists()),
    )
    if not there
]

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}; run tests/e2e/vscode/install.sh"),
    pytest.mark.timeout(600),
]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A running code-server with the extension."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "gemm.ms").write_text(GEMM)
    settings = tmp_path / "data" / "User" / "settings.json"
    settings.parent.mkdir(parents=True)
    quiet = {
        "mslang.server.command": command("lsp"),
        "security.workspace.trust.enabled": False,
        "workbench.startupEditor": "none",
        "telemetry.telemetryLevel": "off",
        "extensions.autoCheckUpdates": False,
        "extensions.autoUpdate": False,
        "editor.suggest.snippetsPreventQuickSuggestions": False,
    }
    settings.write_text(json.dumps(quiet))
    environment = {**os.environ, "HOME": str(tmp_path)}
    places = ["--user-data-dir", str(tmp_path / "data"), "--extensions-dir", str(tmp_path / "extensions")]
    base = [str(NODE), str(SERVER), *places]
    subprocess.run([*base, "--install-extension", str(PACKAGE)], env=environment, check=True, timeout=200)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ["--auth", "none", "--bind-addr", f"127.0.0.1:{port}", "--disable-telemetry", "--disable-update-check"]
    process = subprocess.Popen([*base, *flags, str(folder)], env=environment, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def wait_for(url: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"no answer from {url}")


def test_it_marks_an_illegal_statement_completes_and_shows_the_program(address: str, tmp_path: Path) -> None:
    drive = [str(NODE), str(HERE / "drive.mjs"), str(CHROMIUM), address, str(tmp_path / "workspace")]
    done = subprocess.run(drive, capture_output=True, text=True, timeout=500, check=True)
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert "error" not in seen, seen
    assert seen["language"] == "mslang"
    assert seen["before"] == 0 and seen["illegal"] > 0 and seen["squiggles"] > 0 and seen["after"] == 0
    assert seen["completions"][0] == "vectorize"
    assert seen["line"] == "j1.vectorize()"
    assert "j1 in" in seen["program"]
    # The preview is a printed program, not a source file to be checked.
    assert seen["preview"] == 0
