"""Latency of the language server in a 1,000-line file: each request after a keystroke, over standard input and output.

python benchmarks/lsp_latency.py
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from common import WORKLOADS, conditions, percentile, show, table
from lsprotocol import types
from pygls.lsp.client import LanguageClient

GOALS = {"diagnostics": 0.030, "completion": 0.050, "hover": 0.050, "symbols": 0.080, "irAt": 0.250, "cold start": 1.2}
ROUNDS = 60


def sample(lines: int) -> str:
    """A valid file of about this many lines: the library's workloads in turn, each copy with names of its own."""
    texts = [p.read_text() for p in sorted(WORKLOADS.glob("*.ms"))]
    uses = sorted({line for t in texts for line in t.splitlines() if line.startswith("use ")})
    found, count, k = [], 0, 0
    while count < lines:
        body = "\n".join(x for x in texts[k % len(texts)].splitlines() if not x.startswith("use "))
        names = [
            line.split()[1].split("(")[0].split("[")[0]
            for line in body.splitlines()
            if line.startswith(("program ", "schedule ", "space ", "fn ", "rule "))
        ]
        for name in names:
            body = "\n".join(_renamed(line, name, f"{name}_{k}") for line in body.splitlines())
        found.append(body)
        count += body.count("\n")
        k += 1
    return "\n".join((*_merged(uses), *found)) + "\n"


def _renamed(line: str, old: str, new: str) -> str:
    import re

    return re.sub(rf"(?<![\w.]){old}(?!\w)", new, line) if not line.startswith("##") else line


def _merged(uses: list[str]) -> list[str]:
    """One `use` per module."""
    names: dict[str, set[str]] = {}
    for line in uses:
        module, _, rest = line.removeprefix("use ").partition(".{")
        names.setdefault(module, set()).update(n.strip() for n in rest.rstrip("}").split(","))
    return [f"use {m}.{{{', '.join(sorted(n))}}}" for m, n in sorted(names.items())]


class Client:
    """A client that times the server's answers."""

    def __init__(self) -> None:
        self.client = LanguageClient("benchmark", "1")
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.version = 1

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params)

        @self.client.feature(types.WINDOW_LOG_MESSAGE)
        def logged(params: types.LogMessageParams) -> None:
            print(params.message, file=sys.stderr)

    async def start(self) -> None:
        """Start and initialise the server."""
        await self.client.start_io(str(Path(sys.executable).with_name("mslang")), "lsp")
        await self.client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
        self.client.initialized(types.InitializedParams())

    def type(self, uri: str, at: types.Position, text: str) -> None:
        """One keystroke."""
        self.version += 1
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(uri=uri, version=self.version),
                [types.TextDocumentContentChangePartial(types.Range(at, at), text)],
            )
        )

    async def findings(self) -> float:
        """Wait for the diagnostics of the current text."""
        begin = time.perf_counter()
        while (await self.published.get()).version != self.version:
            pass
        return time.perf_counter() - begin


async def timed(question: Callable[[], Awaitable[Any]]) -> float:
    begin = time.perf_counter()
    answer = await question()
    assert answer is not None
    return time.perf_counter() - begin


async def measure(folder: Path) -> None:
    text = sample(1000)
    lines = text.split("\n")
    path = folder / "big.ms"
    path.write_text(text)
    uri = path.as_uri()
    begin = time.perf_counter()
    client = Client()
    await client.start()
    item = types.TextDocumentItem(uri, "mslang", 1, text)
    client.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    await client.findings()
    times: dict[str, list[float]] = {name: [] for name in GOALS}
    times["cold start"].append(time.perf_counter() - begin)

    document = types.TextDocumentIdentifier(uri)
    split = next(n for n, x in enumerate(lines) if n > 500 and ".split(" in x and x.strip().startswith("let"))
    await timed(lambda: ir_at(client, uri, types.Position(split, 8)))
    for k in range(ROUNDS):
        here = types.Position(split, len(lines[split]) + k)
        # A remark grows at the end of a line of a schedule: every keystroke changes that item's text.
        client.type(uri, here, "#" if k == 0 else "x")
        times["diagnostics"].append(await client.findings())
        place = types.Position(split, lines[split].index(".split(") + 1)
        times["completion"].append(
            await timed(
                lambda p=place: client.client.text_document_completion_async(types.CompletionParams(document, p))
            )
        )
        axis = types.Position(split, lines[split].index(".split(") - 1)
        times["hover"].append(
            await timed(lambda p=axis: client.client.text_document_hover_async(types.HoverParams(document, p)))
        )
        times["symbols"].append(
            await timed(lambda: client.client.text_document_document_symbol_async(types.DocumentSymbolParams(document)))
        )
        times["irAt"].append(await timed(lambda: ir_at(client, uri, types.Position(split, 8))))
    await client.client.shutdown_async(None)
    client.client.exit(None)
    print(f"{text.count(chr(10))} lines, {ROUNDS} keystrokes\n")
    print(
        table(
            ("request", "p50", "p95", "goal"),
            [
                (name, show(statistics.median(found)), show(percentile(found, 95)), show(GOALS[name]))
                for name, found in times.items()
            ],
        )
    )
    print(f"\n{conditions('pygls', 'lark')}")


def ir_at(client: Client, uri: str, place: types.Position) -> Awaitable[Any]:
    return client.client.protocol.send_request_async(
        "mslang/irAt", {"textDocument": {"uri": uri}, "position": {"line": place.line, "character": place.character}}
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))


if __name__ == "__main__":
    main()
