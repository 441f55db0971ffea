"""How clients start the language server: with flags that they add by themselves."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mslang.cli.main import main

SESSION = (
    {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
    {"method": "initialized", "params": {}},
    {"id": 2, "method": "shutdown"},
    {"method": "exit"},
)


def framed(message: dict[str, object]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.parametrize("flags", [[], ["--stdio"], ["--stdio", "--clientProcessId=1"]], ids=" ".join)
def test_it_serves_with_the_flags_of_clients(flags: list[str]) -> None:
    pytest.importorskip("pygls")
    command = [sys.executable, "-m", "mslang", "lsp", *flags]
    done = subprocess.run(command, input=b"".join(map(framed, SESSION)), capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert b'"completionProvider"' in done.stdout and b'"id":2' in done.stdout.replace(b" ", b"")


@pytest.mark.parametrize("flag", ["--node-ipc", "--socket=9", "--pipe=p"])
def test_another_channel_is_wrong_use(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lsp", flag]) == 2
    assert "MS701" in capsys.readouterr().err
