"""A client of the language server that writes the bytes itself, so that it can also write wrong ones."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.conftest import command

Json = dict[str, Any]

PUSHES: Json = {"textDocument": {"publishDiagnostics": {}}}
PULLS: Json = {"textDocument": {"diagnostic": {}}, "workspace": {"diagnostics": {"refreshSupport": True}}}


class Wire:
    """A running server. `messages` is all that it has sent, in order."""

    def __init__(self, folder: Path) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command("lsp"), cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe)
        self.folder = folder
        self.messages: list[Json] = []
        self.arrived = threading.Condition()
        self.last = 0
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    # ------------------------------------------------------------------ out
    def raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def body(self, data: bytes) -> None:
        self.raw(b"Content-Length: %d\r\n\r\n" % len(data) + data)

    def notify(self, method: str, params: object = None) -> None:
        self.body(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def send(self, method: str, params: object = None) -> int:
        """Send a request; gives its id."""
        self.last += 1
        self.body(json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}).encode())
        return self.last

    # ------------------------------------------------------------------ in
    def wait(self, wanted: Callable[[Json], bool], seconds: float = 60, after: int = 0) -> Json:
        """The first message, past so many, for which `wanted` holds."""
        deadline = time.monotonic() + seconds
        seen = after
        with self.arrived:
            while True:
                for message in self.messages[seen:]:
                    if wanted(message):
                        return message
                seen = len(self.messages)
                if not self.arrived.wait(max(0.0, deadline - time.monotonic())):
                    raise AssertionError(f"no such message in {seconds} s; the last ones: {self.messages[-3:]}")

    def answer(self, id: object, seconds: float = 60) -> Json:
        """The answer to a request."""
        return self.wait(lambda m: "id" in m and m["id"] == id and "method" not in m, seconds)

    def ask(self, method: str, params: object = None) -> Any:
        """The result of a request."""
        answer = self.answer(self.send(method, params))
        assert "error" not in answer, answer
        return answer["result"]

    # ------------------------------------------------------------------ documents
    def initialize(self, capabilities: Json | None = None, **more: object) -> Json:
        params = {"processId": os.getpid(), "rootUri": self.folder.as_uri(), "capabilities": capabilities or PUSHES}
        result: Json = self.ask("initialize", {**params, **more})
        self.notify("initialized", {})
        return result

    def open(self, name: str, text: str) -> str:
        """Open a document, by its file name or its URI; gives the URI."""
        uri = name if ":" in name else (self.folder / name).as_uri()
        item = {"uri": uri, "languageId": "mslang", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return uri

    def change(self, uri: str, version: int, *changes: Json) -> None:
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def findings(self, uri: str, wanted: Callable[[list[Json]], bool], after: int = 0) -> list[Json]:
        """The first published findings of a document, past so many messages, for which `wanted` holds."""

        def published(m: Json) -> bool:
            return (
                m.get("method") == "textDocument/publishDiagnostics"
                and m["params"]["uri"] == uri
                and wanted(m["params"]["diagnostics"])
            )

        found: list[Json] = self.wait(published, after=after)["params"]["diagnostics"]
        return found

    def at(self, method: str, uri: str, line: int, character: int, **more: object) -> Any:
        """The result of a request about a place."""
        return self.ask(
            method, {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}, **more}
        )

    def _read(self) -> None:
        assert self.process.stdout is not None
        stream = self.process.stdout
        while header := stream.readline():
            length = 0
            while header.strip():
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
                header = stream.readline()
            message = json.loads(stream.read(length))
            if "id" in message and "method" in message:
                self.body(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": None}).encode())
            with self.arrived:
                self.messages.append(message)
                self.arrived.notify_all()


def edit(line: int, start: int, end: int, text: str) -> Json:
    """A change in one line."""
    return {
        "range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}},
        "text": text,
    }
