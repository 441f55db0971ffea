"""Requests about the names and the structure of files: references, rename, symbols, folding, selection."""

from __future__ import annotations

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from mslang.diagnostics import Diagnostic, MsError
from mslang.ide.definition import definition
from mslang.ide.folding import folding
from mslang.ide.references import highlights, references
from mslang.ide.rename import renamable, rename
from mslang.ide.selection import selection
from mslang.ide.symbols import symbols, workspace_symbols
from mslang_lsp import convert
from mslang_lsp.session import MslangServer

MOST_SYMBOLS = 500
"""How many symbols of the workspace one answer holds."""


def define(server: MslangServer, params: types.DefinitionParams) -> types.Location | None:
    """`textDocument/definition`."""
    path, offset = server.place(params)
    found = definition(server.snapshot, path, offset)
    return None if found is None else server.location(found.path, found.span)


def refer(server: MslangServer, params: types.ReferenceParams) -> list[types.Location]:
    """`textDocument/references`."""
    path, offset = server.place(params)
    found = references(server.from_disk(), path, offset, server.files().paths)
    wanted = [r.place for r in found if params.context.include_declaration or not r.declares]
    return [x for p in wanted if (x := server.location(p.path, p.span)) is not None]


def highlight(server: MslangServer, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
    """`textDocument/documentHighlight`: a declaration is a write, every other place a read."""
    path, offset = server.place(params)
    positions = server.positions(path)
    return [
        types.DocumentHighlight(
            positions.range(r.place.span),
            types.DocumentHighlightKind.Write if r.declares else types.DocumentHighlightKind.Read,
        )
        for r in highlights(server.snapshot, path, offset)
    ]


def prepare_rename(server: MslangServer, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder:
    """`textDocument/prepareRename`."""
    path, offset = server.place(params)
    try:
        found = renamable(server.snapshot, path, offset, server.files().own)
    except MsError as error:
        raise _refusal(server, error) from error
    return types.PrepareRenamePlaceholder(server.positions(path).range(found.span), found.text)


def rename_all(server: MslangServer, params: types.RenameParams) -> types.WorkspaceEdit:
    """`textDocument/rename`: edits of the versions that the client has, and of files on disk."""
    path, offset = server.place(params)
    files = server.files()
    try:
        found = rename(server.from_disk(), path, offset, params.new_name, files.paths, files.own)
    except MsError as error:
        raise _refusal(server, error) from error
    edits = {p: [types.TextEdit(server.range(p, e.span), e.text) for e in some] for p, some in found.items()}
    if not get_capability(server.client_capabilities, "workspace.workspace_edit.document_changes", False):
        return types.WorkspaceEdit(changes={server.uri_of(p): some for p, some in edits.items()})
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(
                types.OptionalVersionedTextDocumentIdentifier(server.uri_of(p), server.version_of(p)), list(some)
            )
            for p, some in edits.items()
        ]
    )


def _refusal(server: MslangServer, error: MsError) -> JsonRpcException:
    """A refusal as one line, which clients show."""
    return JsonRpcException(_line(server, error.diagnostic), types.LSPErrorCodes.RequestFailed.value)


def _line(server: MslangServer, d: Diagnostic) -> str:
    places = [
        f"{note.message}, {server.shown(note.path)}:{server.range(note.path, note.span).start.line + 1}"
        for note in d.notes
        if note.path is not None and note.span is not None
    ]
    why = "; ".join(x for x in (d.why, *places, d.help) if x)
    return f"{d.message}: {why}" if why else d.message


def outline(server: MslangServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    """`textDocument/documentSymbol`."""
    path = server.path_of(params.text_document.uri)
    return convert.symbols(symbols(server.snapshot, path), server.positions(path))


def find_symbols(server: MslangServer, params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
    """`workspace/symbol`."""
    found = workspace_symbols(server.snapshot, params.query, server.files().paths)[:MOST_SYMBOLS]
    return [
        types.WorkspaceSymbol(place, s.symbol.name or s.symbol.kind, convert.kind_of(s.symbol), container_name=s.within)
        for s in found
        if (place := server.location(s.path, s.symbol.name_span)) is not None
    ]


def fold(server: MslangServer, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
    """`textDocument/foldingRange`."""
    path = server.path_of(params.text_document.uri)
    positions = server.positions(path)
    found = []
    for f in folding(server.snapshot, path):
        place = positions.range(f.span)
        # A bracket's range ends where the line of its closing bracket begins.
        last = place.end.line - (f.kind is None and place.end.character == 0)
        if last > place.start.line:
            found.append(types.FoldingRange(place.start.line, last, kind=f.kind))
    return found


def select(server: MslangServer, params: types.SelectionRangeParams) -> list[types.SelectionRange]:
    """`textDocument/selectionRange`."""
    path = server.path_of(params.text_document.uri)
    positions = server.positions(path)
    answers = []
    for position in params.positions:
        around: types.SelectionRange | None = None
        for span in reversed(selection(server.snapshot, path, positions.offset(position))):
            around = types.SelectionRange(positions.range(span), around)
        if around is not None:
            answers.append(around)
    return answers
