"""From the plain data of `mslang.ide` to the types of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lsprotocol import types

from mslang.diagnostics import Diagnostic, Severity, Span
from mslang.ide.candidates import Candidate, Sort
from mslang.ide.program_at import ProgramAt
from mslang.ide.signature import Called
from mslang.ide.symbols import Symbol
from mslang_lsp.positions import Positions

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFORMATION: types.DiagnosticSeverity.Information,
}

_KINDS = {
    Sort.KEYWORD: types.CompletionItemKind.Keyword,
    Sort.OPERATION: types.CompletionItemKind.Method,
    Sort.FUNCTION: types.CompletionItemKind.Function,
    Sort.RULE: types.CompletionItemKind.Function,
    Sort.SCHEDULE: types.CompletionItemKind.Function,
    Sort.SPACE: types.CompletionItemKind.Interface,
    Sort.PROGRAM: types.CompletionItemKind.Class,
    Sort.INTRINSIC: types.CompletionItemKind.Function,
    Sort.TARGET: types.CompletionItemKind.Constant,
    Sort.CONST: types.CompletionItemKind.Constant,
    Sort.MODULE: types.CompletionItemKind.Module,
    Sort.PARAMETER: types.CompletionItemKind.Property,
    Sort.FIELD: types.CompletionItemKind.Field,
    Sort.KIND: types.CompletionItemKind.TypeParameter,
    Sort.AXIS: types.CompletionItemKind.Field,
    Sort.LOOP: types.CompletionItemKind.Variable,
    Sort.BLOCK: types.CompletionItemKind.Class,
    Sort.BUFFER: types.CompletionItemKind.Variable,
    Sort.SIZE: types.CompletionItemKind.Variable,
    Sort.DECISION: types.CompletionItemKind.Variable,
    Sort.VALUE: types.CompletionItemKind.Value,
}

_SYMBOLS = {
    "use": types.SymbolKind.Module,
    "const": types.SymbolKind.Constant,
    "target": types.SymbolKind.Constant,
    "program": types.SymbolKind.Class,
    "schedule": types.SymbolKind.Function,
    "rule": types.SymbolKind.Function,
    "fn": types.SymbolKind.Function,
    "space": types.SymbolKind.Interface,
    "intrin": types.SymbolKind.Function,
    "test": types.SymbolKind.Event,
    "block": types.SymbolKind.Method,
    "buffer": types.SymbolKind.Variable,
    "fork": types.SymbolKind.Enum,
    "case": types.SymbolKind.EnumMember,
    "decision": types.SymbolKind.Property,
}

PositionsOf = Callable[[str], Positions | None]
"""The positions in the text of a path, or None if it cannot be read."""


def diagnostic(
    d: Diagnostic, positions: Positions, others: PositionsOf, uri_of: Callable[[str], str], related: bool
) -> types.Diagnostic:
    """A diagnostic of the file that `positions` are of; notes elsewhere become related information."""
    text = "\n".join(x for x in (d.message, d.why, d.help and f"help: {d.help}") if x)
    notes = []
    for note in d.notes:
        path = note.path or d.path
        there = None if path is None or note.span is None else positions if path == d.path else others(path)
        if there is not None and path is not None and note.span is not None:
            place = types.Location(uri_of(path), there.range(note.span))
            notes.append(types.DiagnosticRelatedInformation(place, note.message))
    return types.Diagnostic(
        range=positions.range(d.span or Span(0, 0)),
        message=text,
        severity=_SEVERITIES[d.severity],
        code=d.code,
        source="mslang",
        related_information=notes if notes and related else None,
    )


def completion(c: Candidate, rank: int, place: types.Range, path: str) -> types.CompletionItem:
    """A candidate; its documentation is fetched when it is looked at."""
    return types.CompletionItem(
        label=c.label,
        kind=_KINDS[c.sort],
        detail=c.detail or None,
        sort_text=f"{0 if c.first else 1}{rank:04}",
        text_edit=types.TextEdit(place, c.insert or c.label),
        filter_text=c.label,
        data=None if c.key is None else {"path": path, "key": c.key},
    )


def kind_of(s: Symbol) -> types.SymbolKind:
    """The protocol's kind of a symbol."""
    return _SYMBOLS[s.kind]


def symbols(found: Iterable[Symbol], positions: Positions) -> list[types.DocumentSymbol]:
    """The outline of a file."""
    return [
        types.DocumentSymbol(
            name=s.name or s.kind,
            kind=kind_of(s),
            detail=s.detail or None,
            range=positions.range(s.span),
            selection_range=positions.range(s.name_span),
            children=symbols(s.children, positions),
        )
        for s in found
    ]


def signature(call: Called) -> types.SignatureHelp:
    """The call that is being written."""
    at = None if call.parameter is None else call.parameters.index(call.parameter)
    parameters = [types.ParameterInformation(label=p.name, documentation=p.kind.value) for p in call.parameters]
    shown = types.SignatureInformation(label=call.signature.text, parameters=parameters, active_parameter=at)
    return types.SignatureHelp(signatures=[shown], active_signature=0, active_parameter=at)


def program_at(answer: ProgramAt, positions: Positions) -> dict[str, object]:
    """The answer of `mslang/irAt`."""
    statement = None
    if answer.statement is not None:
        place = positions.range(answer.statement)
        statement = {
            "start": {"line": place.start.line, "character": place.start.character},
            "end": {"line": place.end.line, "character": place.end.character},
        }
    return {
        "statement": statement,
        "before": answer.before,
        "after": answer.after,
        "diff": answer.diff,
        "handles": [{"name": h.name, "kind": h.kind, "text": h.text} for h in answer.handles],
        "decisions": [{"address": d.address, "value": d.value, "text": d.text} for d in answer.decisions],
        "trace": answer.trace,
        "error": answer.error,
        "passes": answer.passes,
    }
