"""Messages that are malformed, early, late or about nothing: each request is answered, and the server goes on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from tests.e2e.wire import PULLS, Wire

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
NOT_INITIALIZED = -32002


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with Wire(tmp_path_factory.mktemp("messages")) as wire:
        wire.initialize()
        wire.open("m.ms", "schedule s for gemm {\n}\n")
        yield wire
        assert wire.process.poll() is None


def alive(wire: Wire) -> bool:
    uri = (wire.folder / "m.ms").as_uri()
    return [s["name"] for s in wire.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})] == ["s"]


PLACE = {"textDocument": {"uri": "file:///m.ms"}, "position": {"line": 0, "character": 3}}


@pytest.mark.parametrize(
    ("message", "code", "said"),
    [
        ({"method": "textDocument/hover"}, INVALID_PARAMS, "params"),
        ({"method": "textDocument/hover", "params": {"textDocument": 7, "position": "x"}}, INVALID_PARAMS, "position"),
        ({"method": "textDocument/hover", "params": [1, 2]}, INVALID_PARAMS, "textDocument/hover"),
        (
            {
                "method": "textDocument/completion",
                "params": {"textDocument": {"uri": "file:///m.ms"}, "position": {"line": -1, "character": -1}},
            },
            INVALID_PARAMS,
            "position",
        ),
        ({"method": "foo/bar"}, METHOD_NOT_FOUND, "foo/bar"),
        ({"method": "foo/bar", "params": [{"a": 1}]}, METHOD_NOT_FOUND, "foo/bar"),
        ({"method": 7}, INVALID_REQUEST, "method"),
        ({}, INVALID_REQUEST, "method"),
        ({"method": "foo/bar", "jsonrpc": "1.0"}, INVALID_REQUEST, "2.0"),
        ({"method": "initialize", "params": {"processId": None, "capabilities": {}}}, INVALID_REQUEST, "initialized"),
        ({"method": "mslang/irAt"}, INVALID_PARAMS, "mslang/irAt"),
        ({"method": "mslang/irAt", "params": {"textDocument": {"uri": "file:///m.ms"}}}, INVALID_PARAMS, "position"),
        ({"method": "mslang/irAt", "params": {**PLACE, "seed": "x"}}, INVALID_PARAMS, "seed"),
        ({"method": "mslang/irAt", "params": {**PLACE, "pins": [1]}}, INVALID_PARAMS, "pins"),
        ({"method": "mslang/irAt", "params": {**PLACE, "pins": {"t": {"x": 1}}}}, INVALID_PARAMS, "pin"),
        ({"method": "mslang/irAt", "params": {**PLACE, "pins": {"t": "(("}}}, INVALID_PARAMS, "mslang/irAt"),
    ],
)
def test_a_malformed_request_is_answered_with_what_is_wrong(server: Wire, message: dict, code: int, said: str) -> None:
    server.last += 1
    server.body(json.dumps({"jsonrpc": "2.0", "id": server.last, **message}).encode())
    answer = server.answer(server.last)
    assert answer["error"]["code"] == code
    assert said in answer["error"]["message"] and "Traceback" not in json.dumps(answer)
    assert alive(server)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"jsonrpc": "2.0", nonsense', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', PARSE_ERROR),
        (b"[" * 100_000, PARSE_ERROR),
        (b"", PARSE_ERROR),
        (b'[{"jsonrpc":"2.0","id":905,"method":"shutdown"}]', INVALID_REQUEST),
        (b"42", INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"shutdown"}', INVALID_REQUEST),
    ],
)
def test_a_message_without_a_usable_id_is_answered_with_none(server: Wire, body: bytes, code: int) -> None:
    before = len(server.messages)
    server.body(body)
    assert alive(server)
    (answer,) = [m for m in server.messages[before:] if "error" in m]
    assert answer["id"] is None and answer["error"]["code"] == code


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: %d\r\n\r\n",
        b"Content-Length: %d\n\n",
        b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        b"Foo: bar\r\n\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: -5\r\n\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: abc\r\n\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: 999999999999999999\r\n\r\nContent-Length: %d\r\n\r\n",
    ],
)
def test_headers(server: Wire, header: bytes) -> None:
    server.last += 1
    body = b'{"jsonrpc":"2.0","id":"h%d","method":"foo/bar"}' % server.last
    server.raw(header % len(body) + body)
    assert server.answer(f"h{server.last}")["error"]["code"] == METHOD_NOT_FOUND
    assert alive(server)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("textDocument/didChange", {"textDocument": {"uri": "file:///no.ms", "version": 3}, "contentChanges": []}),
        ("textDocument/didChange", {"textDocument": 1}),
        ("textDocument/didClose", {"textDocument": {"uri": "file:///no.ms"}}),
        ("textDocument/didSave", {"textDocument": {"uri": "file:///no.ms"}}),
        ("workspace/didChangeWatchedFiles", {"changes": []}),
        ("$/cancelRequest", {"id": 99999}),
        ("$/cancelRequest", {}),
        ("$/setTrace", {"value": "verbose"}),
        ("unknown/notification", None),
    ],
)
def test_a_notification_about_nothing_is_ignored(server: Wire, method: str, params: object) -> None:
    server.notify(method, params)
    assert alive(server)
    assert not any(m.get("method") == "window/showMessage" for m in server.messages)


def test_before_initialize_and_after_shutdown(tmp_path: Path) -> None:
    with Wire(tmp_path) as wire:
        assert wire.answer(wire.send("textDocument/hover", PLACE))["error"]["code"] == NOT_INITIALIZED
        wire.notify("textDocument/didOpen", {})
        wire.initialize(PULLS)
        assert wire.ask("shutdown") is None
        assert wire.answer(wire.send("textDocument/hover", PLACE))["error"]["code"] == INVALID_REQUEST
        wire.notify("exit")
        assert wire.process.wait(20) == 0


@pytest.mark.parametrize("gone", ["exit without shutdown", "input closed"])
def test_a_client_that_goes_away_ends_the_server(tmp_path: Path, gone: str) -> None:
    with Wire(tmp_path) as wire:
        wire.initialize()
        wire.open("m.ms", "schedule s for gemm {\n}\n")
        if gone == "input closed":
            assert wire.process.stdin is not None
            wire.process.stdin.close()
        else:
            wire.notify("exit")
        assert wire.process.wait(20) == 1
