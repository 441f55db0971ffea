"""The language server: one handler a request, each a call of `mslang.ide` between two conversions."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.io_ import StdoutWriter

from mslang import __version__
from mslang.diagnostics import MsError
from mslang.ide.candidates import documentation
from mslang.ide.completion import completions, replaced
from mslang.ide.formatting import formatting
from mslang.ide.hover import hover, with_run
from mslang.ide.program_at import ProgramAt
from mslang.ide.signature import signature_at
from mslang.schedule.instruction import Value
from mslang.schedule.pins import parse_pin
from mslang.syntax.format import Edit
from mslang_lsp import convert, navigation
from mslang_lsp.framing import read_message
from mslang_lsp.protocol import IR_AT
from mslang_lsp.session import MslangServer
from mslang_lsp.worker import WorkerFailed

_HOVER_SECONDS = 2.0
"""The time that a hover waits for a run of the schedule; after that it shows static facts only."""


def make_server() -> MslangServer:
    """A server with all its handlers."""
    server = MslangServer("mslang", __version__)
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
        (types.TEXT_DOCUMENT_DEFINITION, navigation.define, None),
        (types.TEXT_DOCUMENT_REFERENCES, navigation.refer, None),
        (types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, navigation.highlight, None),
        (types.TEXT_DOCUMENT_PREPARE_RENAME, navigation.prepare_rename, None),
        (types.TEXT_DOCUMENT_RENAME, navigation.rename_all, None),
        (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, navigation.outline, None),
        (types.WORKSPACE_SYMBOL, navigation.find_symbols, None),
        (types.TEXT_DOCUMENT_FOLDING_RANGE, navigation.fold, None),
        (types.TEXT_DOCUMENT_SELECTION_RANGE, navigation.select, None),
        (types.TEXT_DOCUMENT_FORMATTING, _format, None),
        (types.TEXT_DOCUMENT_RANGE_FORMATTING, _format_range, None),
        (
            types.TEXT_DOCUMENT_CODE_ACTION,
            _fixes,
            types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
        ),
        (types.TEXT_DOCUMENT_SIGNATURE_HELP, _signature, types.SignatureHelpOptions(trigger_characters=["(", ","])),
        (types.WORKSPACE_DID_CHANGE_WATCHED_FILES, _watched, None),
        (IR_AT, _ir_at, None),
    ):
        server.feature(method, options)(_guarded(server, method, handler))
    return server


def serve() -> int:
    """Serve on standard input and output until `exit`.

    Returns:
        The exit status: 0 after `shutdown` and `exit`, else 1.
    """
    # What pygls logs is for its own developers; what concerns the user goes to the client's log.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    # The protocol has standard output to itself: whatever else is printed goes to standard error.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server = make_server()
    server.protocol.set_writer(StdoutWriter(channel))
    try:
        return asyncio.run(_serve(server))
    except BrokenPipeError:
        return 1
    finally:
        server.stop_workers()


async def _serve(server: MslangServer) -> int:
    """Handle messages until `exit` or the end of the input."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        # A stream of its own: the interpreter closes `sys.stdin` when it ends, and this thread may still wait on it.
        stream = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
        body: bytes | None = b""
        while body is not None:
            body = read_message(stream)
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(arrived.put_nowait, body)

    threading.Thread(target=read, name="messages", daemon=True).start()
    while (body := await arrived.get()) is not None:
        status = server.protocol.receive(body)
        if status is not None:
            return status
    return 1


def _guarded(server: MslangServer, method: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler whose failure is logged at the client and answered with null; the server goes on."""
    if inspect.iscoroutinefunction(handler):

        async def waiting(params: Any) -> Any:
            try:
                return await handler(server, params)
            except JsonRpcException:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it was, the server goes on
                server.log_failure(method, error)
                return None

        return waiting

    def direct(params: Any) -> Any:
        try:
            return handler(server, params)
        except JsonRpcException:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the server goes on
            server.log_failure(method, error)
            return None

    return direct


# ------------------------------------------------------------------ life
def _initialize(server: MslangServer, params: types.InitializeParams) -> None:
    server.allow(_allowed(params.initialization_options))
    if server.pulls:
        options = types.DiagnosticOptions(
            identifier="mslang", inter_file_dependencies=True, workspace_diagnostics=False
        )
        pull = _guarded(server, types.TEXT_DOCUMENT_DIAGNOSTIC, _pull)
        server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)(pull)


def _allowed(options: object) -> frozenset[str]:
    """The packages in the option `primitives.allowed`."""
    primitives = options.get("primitives") if isinstance(options, dict) else None
    allowed = primitives.get("allowed") if isinstance(primitives, dict) else None
    return frozenset(str(p) for p in allowed) if isinstance(allowed, list) else frozenset()


def _initialized(server: MslangServer, params: types.InitializedParams) -> None:
    server.warm_up()
    watches = "workspace.did_change_watched_files.dynamic_registration"
    if get_capability(server.client_capabilities, watches, False):
        pattern = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher("**/*.ms")])
        watch = types.Registration("mslang-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, pattern)
        server.client_register_capability(types.RegistrationParams([watch]))


def _shutdown(server: MslangServer, params: None) -> None:
    server.stop_workers()


# ------------------------------------------------------------------ texts
def _opened(server: MslangServer, params: types.DidOpenTextDocumentParams) -> None:
    document = params.text_document
    server.opened(document.uri, document.version, document.text)


def _changed(server: MslangServer, params: types.DidChangeTextDocumentParams) -> None:
    server.edited(params.text_document.uri, params.text_document.version, params.content_changes)


def _saved(server: MslangServer, params: types.DidSaveTextDocumentParams) -> None:
    server.reread()


def _closed(server: MslangServer, params: types.DidCloseTextDocumentParams) -> None:
    server.closed(params.text_document.uri)


def _watched(server: MslangServer, params: types.DidChangeWatchedFilesParams) -> None:
    server.reread()


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


def _format(server: MslangServer, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
    path = server.path_of(params.text_document.uri)
    return _text_edits(server, path, formatting(server.snapshot, path))


def _format_range(server: MslangServer, params: types.DocumentRangeFormattingParams) -> list[types.TextEdit]:
    path = server.path_of(params.text_document.uri)
    span = server.positions(path).span(params.range)
    return _text_edits(server, path, formatting(server.snapshot, path, span))


def _text_edits(server: MslangServer, path: str, edits: Iterable[Edit]) -> list[types.TextEdit]:
    """Edits with the line ends of the document."""
    positions, line_end = server.positions(path), server.line_end(path)
    return [types.TextEdit(positions.range(e.span), e.text.replace("\n", line_end)) for e in edits]


def _fixes(server: MslangServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The fixes that diagnostics offer, as quick fixes; none to clients that only know commands."""
    path, wanted = server.path_of(params.text_document.uri), params.context.only
    literals = "text_document.code_action.code_action_literal_support"
    if get_capability(server.client_capabilities, literals, None) is None:
        return []
    if wanted is not None and not {"", types.CodeActionKind.QuickFix} & set(wanted):
        return []
    return [
        types.CodeAction(
            title=fix.title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[mended],
            edit=types.WorkspaceEdit({params.text_document.uri: _text_edits(server, path, [Edit(fix.span, fix.text)])}),
        )
        for mended, fix in server.fixes(path, server.positions(path).span(params.range))
    ]


def _signature(server: MslangServer, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
    path, offset = server.place(params)
    found = signature_at(server.snapshot, path, offset)
    return None if found is None else convert.signature(found)


def _pull(server: MslangServer, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
    path = server.path_of(params.text_document.uri)
    return types.RelatedFullDocumentDiagnosticReport(items=server.delivered(path))


class _IrAt(msgspec.Struct, rename="camel"):
    """The parameters of `mslang/irAt`; pins are values by address, as JSON or as `.ms` text."""

    text_document: _Document
    position: _Position
    seed: int | None = None
    pins: dict[str, Any] | None = None


class _Document(msgspec.Struct):
    uri: str


class _Position(msgspec.Struct):
    line: Annotated[int, msgspec.Meta(ge=0)]
    character: Annotated[int, msgspec.Meta(ge=0)]


async def _ir_at(server: MslangServer, params: object) -> dict[str, object] | None:
    try:
        asked = msgspec.convert(params, _IrAt)
        pins = {address: _pin(address, value) for address, value in (asked.pins or {}).items()}
    except (msgspec.ValidationError, MsError) as error:
        raise JsonRpcInvalidParams(f"parameters of `{IR_AT}`: {error}") from error
    path = server.path_of(asked.text_document.uri)
    positions = server.positions(path)
    offset = positions.offset(types.Position(asked.position.line, asked.position.character))
    try:
        answer = await server.show(path, offset, None, asked.seed or 0, pins)
    except WorkerFailed as error:
        answer = ProgramAt(None, "", "", "", (), (), "", str(error))
    return None if answer is None else convert.program_at(answer, positions)


def _pin(address: str, value: Any) -> Value:
    match value:
        case str():
            return parse_pin(f"{address} = {value}")[1]
        case list() if all(x is None or isinstance(x, int | float) for x in value):
            return tuple(value)
        case bool() | int() | float():
            return value
    raise msgspec.ValidationError(f"a pin is a number, a list of numbers or text, not `{value}`")
