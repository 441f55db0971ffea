"""The language server: one handler a request, each a call of `mslang.ide` between two conversions."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from lsprotocol import types

from mslang import __version__
from mslang.ide.candidates import documentation
from mslang.ide.completion import completions, replaced
from mslang.ide.definition import definition
from mslang.ide.formatting import formatting
from mslang.ide.hover import hover, with_run
from mslang.ide.signature import signature_at
from mslang.ide.symbols import symbols
from mslang.schedule.pins import parse_pin
from mslang.schedule.trace import Value
from mslang_lsp import convert
from mslang_lsp.session import MslangServer
from mslang_lsp.worker import WorkerFailed

IR_AT = "mslang/irAt"
"""The request for the program at a position."""

_HOVER_SECONDS = 2.0
"""How long a hover waits for a run of the schedule before it says only what is known without one."""


def make_server() -> MslangServer:
    """A server with all its handlers."""
    server = MslangServer("mslang", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Incremental)
    for method, handler, options in (
        (types.TEXT_DOCUMENT_DID_OPEN, _opened, None),
        (types.TEXT_DOCUMENT_DID_CHANGE, _changed, None),
        (types.TEXT_DOCUMENT_DID_CLOSE, _closed, None),
        (types.TEXT_DOCUMENT_DID_SAVE, _saved, None),
        (types.INITIALIZE, _initialize, None),
        (types.INITIALIZED, _initialized, None),
        (types.SHUTDOWN, _shutdown, None),
        (
            types.TEXT_DOCUMENT_COMPLETION,
            _completion,
            types.CompletionOptions(trigger_characters=[".", "~", "@", "(", ",", "{", "="], resolve_provider=True),
        ),
        (types.COMPLETION_ITEM_RESOLVE, _resolve, None),
        (types.TEXT_DOCUMENT_HOVER, _hover, None),
        (types.TEXT_DOCUMENT_DEFINITION, _definition, None),
        (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols, None),
        (types.TEXT_DOCUMENT_FORMATTING, _format, None),
        (types.TEXT_DOCUMENT_RANGE_FORMATTING, _format_range, None),
        (types.TEXT_DOCUMENT_SIGNATURE_HELP, _signature, types.SignatureHelpOptions(trigger_characters=["(", ","])),
        (
            types.TEXT_DOCUMENT_DIAGNOSTIC,
            _pull,
            types.DiagnosticOptions(identifier="mslang", inter_file_dependencies=True, workspace_diagnostics=False),
        ),
        (IR_AT, _ir_at, None),
    ):
        server.feature(method, options)(_guarded(server, method, handler))
    return server


def serve() -> None:
    """Serve on standard input and output until the client ends it."""
    server = make_server()
    # The protocol has standard output to itself: whatever else is printed goes to standard error.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        server.start_io(stdout=channel)
    finally:
        server.stop_workers()


def _guarded(server: MslangServer, method: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler whose failure is one line in the client's log and an empty answer, never the server's end."""
    if inspect.iscoroutinefunction(handler):

        async def waiting(params: Any) -> Any:
            try:
                return await handler(server, params)
            except Exception as error:  # noqa: BLE001 - whatever it was, the server goes on
                server.log_failure(method, error)
                return None

        return waiting

    def direct(params: Any) -> Any:
        try:
            return handler(server, params)
        except Exception as error:  # noqa: BLE001 - whatever it was, the server goes on
            server.log_failure(method, error)
            return None

    return direct


# ------------------------------------------------------------------ life
def _initialize(server: MslangServer, params: types.InitializeParams) -> None:
    server.allow(_allowed(params.initialization_options))


def _allowed(options: object) -> frozenset[str]:
    """The packages of the option `primitives.allowed`, which the workspace's owner has written."""
    primitives = options.get("primitives") if isinstance(options, dict) else None
    allowed = primitives.get("allowed") if isinstance(primitives, dict) else None
    return frozenset(str(p) for p in allowed) if isinstance(allowed, list) else frozenset()


def _initialized(server: MslangServer, params: types.InitializedParams) -> None:
    server.warm_up()


def _shutdown(server: MslangServer, params: None) -> None:
    server.stop_workers()


# ------------------------------------------------------------------ texts
def _opened(server: MslangServer, params: types.DidOpenTextDocumentParams) -> None:
    server.changed(params.text_document.uri)


def _changed(server: MslangServer, params: types.DidChangeTextDocumentParams) -> None:
    server.changed(params.text_document.uri)


def _saved(server: MslangServer, params: types.DidSaveTextDocumentParams) -> None:
    server.changed(params.text_document.uri)


def _closed(server: MslangServer, params: types.DidCloseTextDocumentParams) -> None:
    server.closed(params.text_document.uri)


# ------------------------------------------------------------------ questions
def _completion(server: MslangServer, params: types.CompletionParams) -> types.CompletionList:
    path, offset = server.place(params)
    found = completions(server.snapshot, path, offset)
    place = server.positions(path).range(replaced(server.snapshot, path, offset))
    return types.CompletionList(False, [convert.completion(c, k, place, path) for k, c in enumerate(found)])


def _resolve(server: MslangServer, item: types.CompletionItem) -> types.CompletionItem:
    if isinstance(item.data, dict):
        module = server.snapshot.module(item.data["path"])
        item.documentation = types.MarkupContent(types.MarkupKind.Markdown, documentation(module, item.data["key"]))
    return item


async def _hover(server: MslangServer, params: types.HoverParams) -> types.Hover | None:
    path, offset = server.place(params)
    found = hover(server.snapshot, path, offset)
    if found is None:
        return None
    place = server.positions(path).range(found.span)
    if found.runs:
        try:
            # The end of the word, so that a binder's own statement counts.
            answer = await server.show(path, found.span.end, _HOVER_SECONDS)
            found = with_run(found, answer)
        except (WorkerFailed, TimeoutError):
            pass
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found.text), place)


def _definition(server: MslangServer, params: types.DefinitionParams) -> types.Location | None:
    path, offset = server.place(params)
    found = definition(server.snapshot, path, offset)
    if found is None:
        return None
    positions = server.positions_of(found.path)
    return None if positions is None else types.Location(server.uri_of(found.path), positions.range(found.span))


def _symbols(server: MslangServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    path = server.path_of(params.text_document.uri)
    return convert.symbols(symbols(server.snapshot, path), server.positions(path))


def _format(server: MslangServer, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
    path = server.path_of(params.text_document.uri)
    positions = server.positions(path)
    return [types.TextEdit(positions.range(e.span), e.text) for e in formatting(server.snapshot, path)]


def _format_range(server: MslangServer, params: types.DocumentRangeFormattingParams) -> list[types.TextEdit]:
    path = server.path_of(params.text_document.uri)
    positions = server.positions(path)
    edits = formatting(server.snapshot, path, positions.span(params.range))
    return [types.TextEdit(positions.range(e.span), e.text) for e in edits]


def _signature(server: MslangServer, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
    path, offset = server.place(params)
    found = signature_at(server.snapshot, path, offset)
    return None if found is None else convert.signature(found)


def _pull(server: MslangServer, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
    path = server.path_of(params.text_document.uri)
    return types.RelatedFullDocumentDiagnosticReport(items=server.diagnostics(path))


async def _ir_at(server: MslangServer, params: Any) -> dict[str, object] | None:
    uri, position = params.textDocument.uri, params.position
    path = server.path_of(uri)
    positions = server.positions(path)
    offset = positions.offset(types.Position(position.line, position.character))
    seed = getattr(params, "seed", None) or 0
    try:
        answer = await server.show(path, offset, None, int(seed), _pins(getattr(params, "pins", None)))
    except WorkerFailed as error:
        return {
            "statement": None,
            "before": "",
            "after": "",
            "diff": "",
            "handles": [],
            "decisions": [],
            "trace": "",
            "error": f"the schedule could not be run: {error}",
        }
    return None if answer is None else convert.program_at(answer, positions)


def _pins(given: Any) -> dict[str, Value]:
    """Pins as an object of values by address, each as JSON or as `.ms` text."""
    if given is None:
        return {}
    items = given.items() if isinstance(given, dict) else given._asdict().items()
    return {a: _pin(a, v) for a, v in items}


def _pin(address: str, value: Any) -> Value:
    if isinstance(value, list):
        return tuple(value)
    found: Value = parse_pin(f"{address} = {value}")[1] if isinstance(value, str) else value
    return found
