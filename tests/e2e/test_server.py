"""The real server over standard input and output, driven by a client that shares no code with it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.conftest import GEMM, command

pytest.importorskip("pygls")
pytest_lsp = pytest.importorskip("pytest_lsp")
types = pytest.importorskip("lsprotocol.types")

SAMPLES = sorted((Path(__file__).parents[1] / "fixtures" / "samples").glob("*.ms"))

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Session:
    """A server and its client, with short ways to ask."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.versions: dict[str, int] = {}

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> str:
        uri = self.uri(name)
        self.versions[uri] = 1
        self.client.text_document_did_open(
            types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "mslang", 1, text))
        )
        return uri

    def change(self, uri: str, text: str, range: Any = None) -> None:
        self.versions[uri] += 1
        event = (
            types.TextDocumentContentChangeWholeDocument(text)
            if range is None
            else types.TextDocumentContentChangePartial(range, text)
        )
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri]), [event]
            )
        )

    async def findings(self, uri: str, wanted: Any) -> list[Any]:
        """The diagnostics of a file, once `wanted` holds for them."""
        for _ in range(400):
            found = self.client.diagnostics.get(uri)
            if found is not None and wanted(found):
                return found  # type: ignore[no-any-return]
            await asyncio.sleep(0.05)
        raise AssertionError(f"never: {self.client.diagnostics.get(uri)}")

    async def labels(self, uri: str, line: int, character: int) -> list[str]:
        found = await self.client.text_document_completion_async(
            types.CompletionParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        )
        return [item.label for item in found.items]

    async def hover(self, uri: str, line: int, character: int) -> str:
        found = await self.client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        )
        return "" if found is None else found.contents.value

    async def hovers(self, uri: str, line: int, character: int, wanted: str) -> bool:
        """Whether a hover comes to say something; the first ones do not wait for a process that is still starting."""
        for _ in range(20):
            if wanted in await self.hover(uri, line, character):
                return True
        return False

    async def ir_at(self, uri: str, line: int, character: int, **more: object) -> Any:
        return await self.client.protocol.send_request_async(
            "mslang/irAt", {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}, **more}
        )

    def faults(self) -> list[str]:
        """What the server said of its own failures."""
        return [m.message for m in (*self.client.log_messages, *self.client.messages) if "failed" in m.message]


async def start(folder: Path, editor: str = "visual_studio_code", encodings: list[str] | None = None) -> Session:
    client = pytest_lsp.make_test_lsp_client()
    await client.start_io(*command("lsp"), cwd=folder)
    capabilities = pytest_lsp.client_capabilities(editor)
    if encodings is not None:
        capabilities.general.position_encodings = encodings
    client.init_result = await client.initialize_session(
        types.InitializeParams(capabilities=capabilities, root_uri=folder.as_uri())
    )
    return Session(client, folder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    session = await start(tmp_path_factory.mktemp("workspace"))
    yield session
    assert session.faults() == []
    await session.client.shutdown_session()
    assert session.client._server.returncode == 0


def line_of(text: str, part: str) -> tuple[int, int]:
    """The line and character where a part begins."""
    offset = text.index(part)
    return text.count("\n", 0, offset), offset - text.rfind("\n", 0, offset) - 1


async def test_a_broken_file_gets_its_diagnostics(server: Session) -> None:
    broken = GEMM.replace("mm.i.split(ti)", "mm.x.split(ti").replace("perfect_tile(mm.j", "prefect(mm.j")
    uri = server.open("broken.ms", broken)
    found = await server.findings(uri, bool)
    assert {d.code for d in found} >= {"MS202"}
    assert all(d.source == "mslang" and d.severity == types.DiagnosticSeverity.Error for d in found)
    server.change(uri, GEMM)
    assert len(await server.findings(uri, lambda ds: not ds)) == 0


async def test_completion_after_a_dot(server: Session) -> None:
    text = GEMM.replace("j1.vectorize()", "j1.")
    uri = server.open("dot.ms", text)
    line, character = line_of(text, "    j1.\n")
    assert "vectorize" in await server.labels(uri, line, character + 7)
    found = await server.client.text_document_completion_async(
        types.CompletionParams(types.TextDocumentIdentifier(uri), types.Position(line, character + 7))
    )
    item = next(i for i in found.items if i.label == "vectorize")
    resolved = await server.client.completion_item_resolve_async(item)
    assert "loop.vectorize" in resolved.documentation.value


async def test_typing_one_character_at_a_time(server: Session) -> None:
    uri = server.open("typed.ms", GEMM)
    line, _ = line_of(GEMM, "    j1.vectorize()")
    place = types.Position(line, 0)
    server.change(uri, "\n", types.Range(place, place))
    for k, typed in enumerate("    i1."):
        here = types.Position(line, k)
        server.change(uri, typed, types.Range(here, here))
    assert "unroll" in await server.labels(uri, line, 7)


async def test_hover_on_a_loop_shows_its_extent(server: Session) -> None:
    text = GEMM.replace("mm.j.split(tj)", "mm.j.split([_, 8])")
    uri = server.open("hover.ms", text)
    line, character = line_of(text, "j1 = mm.j")
    assert await server.hovers(uri, line, character + 1, "extent 8")
    line, character = line_of(text, "block mm")
    assert "reduce" in await server.hover(uri, line, character + 6)


async def test_definition(server: Session) -> None:
    uri = server.open("definition.ms", GEMM)
    found = await server.client.text_document_definition_async(
        types.DefinitionParams(types.TextDocumentIdentifier(uri), types.Position(*line_of(GEMM, "j1.vectorize")))
    )
    assert found.uri == uri and (found.range.start.line, found.range.start.character) == line_of(GEMM, "j1 = mm.j")


async def test_document_symbols(server: Session) -> None:
    uri = server.open("symbols.ms", GEMM)
    found = await server.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(types.TextDocumentIdentifier(uri))
    )
    assert [s.name for s in found] == ["gemm", "tiled"]
    assert [s.name for s in found[1].children] == ["ti", "tj", "threads"]


async def test_formatting(server: Session) -> None:
    uri = server.open("format.ms", GEMM.replace("    reorder(", "  reorder(  "))
    edits = await server.client.text_document_formatting_async(
        types.DocumentFormattingParams(types.TextDocumentIdentifier(uri), types.FormattingOptions(4, True))
    )
    assert any("    reorder(i0, j0, mm.k, i1, j1)\n" in e.new_text for e in edits)


async def test_fixes_are_quick_fixes(server: Session) -> None:
    text = GEMM.replace("j1.vectorize()", "j1.vectorise()")
    uri = server.open("fixes.ms", text)
    (found,) = await server.findings(uri, lambda ds: [d for d in ds if d.code == "MS202"])

    async def asked(place: Any, only: list[Any] | None = None) -> list[Any]:
        context = types.CodeActionContext([], only)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), place, context)
        return list(await server.client.text_document_code_action_async(params) or [])

    (action,) = await asked(types.Range(found.range.start, found.range.start))
    assert (action.title, action.kind) == ("change to `vectorize`", types.CodeActionKind.QuickFix)
    (edit,) = action.edit.changes[uri]
    assert (edit.range, edit.new_text) == (found.range, "vectorize")
    assert action.diagnostics[0].code == "MS202"
    assert await asked(found.range, [types.CodeActionKind.Refactor]) == []
    assert await asked(types.Range(types.Position(0, 0), types.Position(0, 0))) == []


async def test_signature_help(server: Session) -> None:
    text = GEMM.replace("mm.i.split(ti)", "mm.i.split(")
    uri = server.open("signature.ms", text)
    line, character = line_of(text, "mm.i.split(")
    found = await server.client.text_document_signature_help_async(
        types.SignatureHelpParams(types.TextDocumentIdentifier(uri), types.Position(line, character + 11))
    )
    assert found.signatures[0].label.startswith("loop.split(factors")


async def test_the_program_after_the_statement(server: Session) -> None:
    uri = server.open("program.ms", GEMM)
    line, character = line_of(GEMM, "let j0, j1")
    found = await server.ir_at(uri, line, character, seed=3, pins={"ti": [8, 4], "tj": "[6, 8]"})
    assert "j0 in 6, j1 in 8" in found.after and "j0" not in found.before
    assert "tj ~ perfect_tile(mm.j, n = 2, max_inner = 16) = [6, 8]" in found.trace
    assert found.error is None and found.statement.start.line == line
    assert any(h.name == "j1" and "extent 8" in h.text for h in found.handles)
    assert await server.ir_at(uri, 0, 0) is None


async def test_trial_runs_find_what_a_primitive_refuses(server: Session) -> None:
    text = GEMM.replace("        case rows { i0.parallel() }", "        case rows { mm.k.parallel() }")
    uri = server.open("trial.ms", text)
    warning, refusal = sorted(await server.findings(uri, bool), key=lambda d: d.severity)
    assert refusal.severity == types.DiagnosticSeverity.Information and "of 64 draws" in refusal.message
    assert (refusal.range.start.line, refusal.range.start.character) == line_of(text, "mm.k.parallel()")
    # No draw of this case is legal.
    assert warning.severity == types.DiagnosticSeverity.Warning and "never legal" in warning.message


async def test_a_file_uses_another_that_is_open(server: Session) -> None:
    server.open("used.ms", GEMM)
    user = 'use "./used.ms".{gemm}\nschedule s for gemm {\n    mm.i.parallel()\n}\n'
    uri = server.open("user.ms", user)
    found = await server.client.text_document_definition_async(
        types.DefinitionParams(types.TextDocumentIdentifier(uri), types.Position(1, 16))
    )
    assert found.uri == server.uri("used.ms")


async def test_a_request_that_makes_no_sense_does_not_end_the_server(server: Session) -> None:
    before = len(server.client.log_messages)
    assert (
        await server.client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(server.uri("absent.ms")), types.Position(3, 3))
        )
        is None
    )
    said = server.client.log_messages[before:]
    assert len(said) == 1
    server.client.log_messages.remove(said[0])
    uri = server.open("still.ms", GEMM)
    assert await server.hover(uri, *line_of(GEMM, "mm.j.split")) != ""


async def test_every_prefix_of_a_sample(server: Session) -> None:
    await prefixes(server, GEMM, 23)


@pytest.mark.campaign
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.name)
async def test_every_prefix_of_all_samples(server: Session, path: Path) -> None:
    await prefixes(server, path.read_text(), 1)


async def prefixes(server: Session, text: str, step: int) -> None:
    """Type a text, and ask everything of each prefix."""
    uri = server.open("prefix.ms", "")
    end = types.Position(0, 0)
    for k in range(0, len(text), step):
        piece = text[k : k + step]
        server.change(uri, piece, types.Range(end, end))
        typed = text[: k + step]
        end = types.Position(typed.count("\n"), len(typed) - typed.rfind("\n") - 1)
        document = types.TextDocumentIdentifier(uri)
        at = server.client
        await asyncio.gather(
            at.text_document_completion_async(types.CompletionParams(document, end)),
            at.text_document_hover_async(types.HoverParams(document, end)),
            at.text_document_definition_async(types.DefinitionParams(document, end)),
            at.text_document_signature_help_async(types.SignatureHelpParams(document, end)),
            at.text_document_document_symbol_async(types.DocumentSymbolParams(document)),
        )
        assert server.faults() == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_positions_after_an_emoji(encoding: str, tmp_path: Path) -> None:
    session = await start(tmp_path, encodings=[encoding])
    text = GEMM.replace("    j1.vectorize()", '    mm.annotate("🚀é") j1.')
    uri = session.open("emoji.ms", text)
    line = next(n for n, t in enumerate(text.split("\n")) if "🚀" in t)
    whole = text.split("\n")[line]
    sizes = {"utf-8": len(whole.encode()), "utf-16": len(whole.encode("utf-16-le")) // 2, "utf-32": len(whole)}
    units = sizes[encoding]
    assert "vectorize" in await session.labels(uri, line, units)
    place = types.Position(line, units)
    session.change(uri, "v", types.Range(place, place))
    assert "vectorize" in await session.labels(uri, line, units + 1)
    assert session.faults() == []
    await session.client.shutdown_session()
    assert session.client._server.returncode == 0


async def test_without_pygls_the_command_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text("raise ImportError('No module named pygls')\n")
    done = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mslang",
        "lsp",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": str(tmp_path)},
    )
    _, said = await done.communicate()
    assert done.returncode == 3 and b"pip install '.[lsp]'" in said
