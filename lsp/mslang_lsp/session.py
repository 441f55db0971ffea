"""The state of a running server: the texts, their diagnostics, and when these are published."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from lsprotocol import types
from msgspec.structs import replace
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer

from mslang.diagnostics import Diagnostic, Fix, MsError, Severity, Span, bounded_depth
from mslang.ide.findings import findings
from mslang.ide.program_at import ProgramAt
from mslang.ide.runs import NO_PINS
from mslang.ide.snapshot import Snapshot
from mslang.ide.trial import trial_key, trial_names
from mslang.schedule.instruction import Value
from mslang.sema.module import NAMED, Module
from mslang_lsp import convert, tasks
from mslang_lsp.documents import Change, Document
from mslang_lsp.files import Files
from mslang_lsp.positions import Positions
from mslang_lsp.protocol import MslangProtocol
from mslang_lsp.units import Encoding
from mslang_lsp.uris import path_of, uri_of
from mslang_lsp.worker import Worker, WorkerFailed

TRIAL_DELAY = 0.4
"""Seconds without a change before schedules are run."""

WARM_UP_DELAY = 0.5
"""Seconds from the start of the server to the start of the preview process."""

TRIAL_SECONDS = 20.0
"""The time limit of the trial runs of one schedule."""

SHOW_SECONDS = 10.0
"""The time limit of a preview."""


class Positioned(Protocol):
    """Parameters of a request about a place."""

    text_document: types.TextDocumentIdentifier
    position: types.Position


class MslangServer(LanguageServer):
    """The server. Previews and trial runs have a process each, so that neither waits for the other, and the event loop
    waits for none."""

    protocol: MslangProtocol

    def __init__(self, name: str, version: str) -> None:
        super().__init__(name, version, protocol_cls=MslangProtocol)
        self.packages: frozenset[str] = frozenset()
        self.snapshot = Snapshot(packages=self.packages)
        self._documents: dict[str, Document] = {}
        self._uris: dict[str, str] = {}
        self._trials: dict[tuple[str, str], tuple[int, tuple[Diagnostic, ...]]] = {}
        self._delivered: dict[str, list[types.Diagnostic]] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._publishing: asyncio.Handle | None = None
        self._warming: asyncio.Handle | None = None
        self._jobs: set[asyncio.Future[ProgramAt | None]] = set()
        self._failed: dict[tuple[str, int], Diagnostic] = {}
        self._previews = Worker(SHOW_SECONDS)
        self._runner = Worker(TRIAL_SECONDS)

    # ------------------------------------------------------------------ places
    @property
    def encoding(self) -> Encoding:
        """The unit of the client's positions."""
        return Encoding(self.workspace.position_encoding)

    def path_of(self, uri: str) -> str:
        """The path of a document, or its URI if it is not a file."""
        return path_of(uri)

    def uri_of(self, path: str) -> str:
        """The URI of a path, as the client spells it if the document is open."""
        return self._uris.get(path) or uri_of(path)

    def line_end(self, path: str) -> str:
        """The line end that new lines of a document get."""
        document = self._documents.get(path)
        return "\n" if document is None else document.line_end

    def positions(self, path: str) -> Positions:
        """The positions in a file.

        Raises:
            MsError: it cannot be read.
        """
        return Positions(self.snapshot.module(path).file.text, self.encoding)

    def positions_of(self, path: str) -> Positions | None:
        """The positions in a file, or None if it cannot be read."""
        text = self.snapshot.read(path)
        return None if text is None else Positions(text, self.encoding)

    def range(self, path: str, span: Span) -> types.Range:
        """The range of a span of a file that was read."""
        return Positions(self.snapshot.read(path) or "", self.encoding).range(span)

    def location(self, path: str, span: Span) -> types.Location | None:
        """A place in a file, or None if it cannot be read."""
        positions = self.positions_of(path)
        return None if positions is None else types.Location(self.uri_of(path), positions.range(span))

    def version_of(self, path: str) -> int | None:
        """The version of a document that the client has open."""
        document = self._documents.get(path)
        return None if document is None else document.version

    def files(self) -> Files:
        """The files of the workspace as they are now."""
        folders = [self.path_of(uri) for uri in self.workspace.folders]
        root = self.workspace.root_path
        return Files(folders or ([root] if root else []), self._documents)

    def from_disk(self) -> Snapshot:
        """A snapshot that reads closed files again: not every client watches them."""
        return Snapshot(self.snapshot.texts, packages=self.packages)

    def shown(self, path: str) -> str:
        """A path as messages show it: from the workspace's folder on."""
        root = self.workspace.root_path
        return os.path.relpath(path, root) if root and path.startswith(root + os.sep) else path

    def place(self, params: Positioned) -> tuple[str, int]:
        """The path and the offset that a request is about."""
        path = self.path_of(params.text_document.uri)
        return path, self.positions(path).offset(params.position)

    def allow(self, packages: frozenset[str]) -> None:
        """Let the primitives of these installed packages be loaded; of others nothing is imported."""
        self.packages = packages
        self.snapshot = Snapshot(self.snapshot.texts, packages=packages)

    # ------------------------------------------------------------------ changes
    def opened(self, uri: str, version: int, raw: str) -> None:
        """A document was opened, or opened again with another text."""
        path = self.path_of(uri)
        self._uris[path] = uri
        self._put(path, Document(version, raw))

    def edited(self, uri: str, version: int, changes: Sequence[Change]) -> None:
        """A document was edited. Edits of a document that is not open are ignored: their base is unknown."""
        path = self.path_of(uri)
        document = self._documents.get(path)
        if document is None:
            self.log(f"ignored edits of `{uri}`, which is not open")
            return
        self._put(path, document.changed(version, changes, self.encoding))

    def closed(self, uri: str) -> None:
        """A document was closed: the text on disk counts again, and no diagnostics are reported for it."""
        path = self.path_of(uri)
        if self._documents.pop(path, None) is None:
            return
        self._uris.pop(path, None)
        self._delivered.pop(path, None)
        self.snapshot = self.snapshot.without(path)
        self._trials = {place: found for place, found in self._trials.items() if place[0] != path}
        waiting = self._waiting.pop(path, None)
        if waiting is not None:
            waiting.cancel()
        if not self.pulls:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
        self._changed()

    def reread(self) -> None:
        """Files on disk have changed."""
        self.snapshot = Snapshot(self.snapshot.texts, packages=self.packages)
        self._changed()

    def _put(self, path: str, document: Document) -> None:
        self._documents[path] = document
        self.snapshot = self.snapshot.with_text(path, document.text)
        self._changed()

    def _changed(self) -> None:
        """Check all open documents again: they may use the file that changed."""
        self._failed.clear()
        self._publish_soon()
        for path in self._documents:
            self._schedule_trials(path)

    # ------------------------------------------------------------------ diagnostics
    @property
    def pulls(self) -> bool:
        """Whether the client pulls diagnostics. A client that does not support `workspace/diagnostic/refresh` gets them
        pushed instead, because findings of trial runs come later than the answer to its request."""
        asks = get_capability(self.client_capabilities, "text_document.diagnostic") is not None
        return asks and bool(get_capability(self.client_capabilities, "workspace.diagnostics.refresh_support", False))

    def delivered(self, path: str) -> list[types.Diagnostic]:
        """All diagnostics of a file, to be sent to the client now."""
        found = self._delivered[path] = self._diagnostics(path)
        return found

    def _diagnostics(self, path: str) -> list[types.Diagnostic]:
        return [self._converted(d, path) for d in self._known(path)]

    def _known(self, path: str) -> tuple[Diagnostic, ...]:
        """What is known of a file: static findings, and those of trial runs; or that it is nested too deeply."""
        try:
            with bounded_depth("the file"):
                module = self.snapshot.module(path)
                known = (*findings(module), *self._trial_findings(module))
        except MsError as error:
            return () if self.snapshot.read(path) is None else error.diagnostics
        return tuple(dict.fromkeys(d for d in known if d.path in (None, path)))

    def _converted(self, d: Diagnostic, path: str) -> types.Diagnostic:
        capability = "text_document.publish_diagnostics.related_information"
        related = bool(get_capability(self.client_capabilities, capability, False))
        positions = Positions(self.snapshot.read(path) or "", self.encoding)
        return convert.diagnostic(d, positions, self.positions_of, self.uri_of, related)

    def fixes(self, path: str, span: Span) -> list[tuple[types.Diagnostic, Fix]]:
        """The fixes of the diagnostics that meet a span of a file."""
        return [
            (self._converted(d, path), fix)
            for d in self._known(path)
            if d.span is not None and d.span.start <= span.end and span.start <= d.span.end
            for fix in d.fixes
        ]

    def _trial_findings(self, module: Module) -> Iterator[Diagnostic]:
        """The findings of trial runs of the schedules that have not changed since."""
        seen: set[tuple[str, Span | None]] = set()
        for name, placed in module.items.items():
            key, found = self._trials.get((module.path, name), (None, ()))
            if key is None or key != trial_key(module, name):
                continue
            for d in (x.placed(module.path, placed.start) for x in found):
                # A space that a refused schedule is part of is refused for the same reason.
                if (d.message, d.span) not in seen:
                    seen.add((d.message, d.span))
                    yield d

    def _publish_soon(self) -> None:
        """Publish after all changes that have arrived are applied."""
        if self._publishing is not None:
            self._publishing.cancel()
        self._publishing = asyncio.get_running_loop().call_soon(self._publish_all)

    def _publish_all(self) -> None:
        self._publishing = None
        if self.pulls:
            return
        for path in self._documents:
            self._publish(path)

    def _publish(self, path: str) -> None:
        try:
            found = self.delivered(path)
        except Exception as error:  # noqa: BLE001 - whatever it was, the server goes on
            self.log_failure("diagnostics", error)
            return
        version = self._documents[path].version
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(self.uri_of(path), found, version))

    # ------------------------------------------------------------------ runs
    def _schedule_trials(self, path: str) -> None:
        waiting = self._waiting.pop(path, None)
        if waiting is not None:
            waiting.cancel()
        self._waiting[path] = asyncio.ensure_future(self._check_later(path))

    async def _check_later(self, path: str) -> None:
        await asyncio.sleep(TRIAL_DELAY)
        try:
            with bounded_depth("the file"):
                await self._run_trials(path)
            if path in self._documents and self._diagnostics(path) != self._delivered.get(path, []):
                self._deliver(path)
        except MsError:
            return
        except Exception as error:  # noqa: BLE001 - whatever it was, the server goes on
            self.log_failure("trial runs", error)

    async def _run_trials(self, path: str) -> None:
        """Run the schedules of a file that have changed since they were run."""
        snapshot = self.snapshot
        module = snapshot.module(path)
        self._trials = {at: found for at, found in self._trials.items() if at[0] != path or at[1] in module.items}
        for name in trial_names(module):
            key = trial_key(module, name)
            if self._trials.get((path, name), (None, ()))[0] == key:
                continue
            doing, texts = f"trying `{name}`", dict(snapshot.texts)
            try:
                found = await self._runner.run(doing, tasks.run_trial, texts, self.packages, path, name)
            except WorkerFailed as error:
                self.log(str(error))
                if error.transient:
                    continue
                item = module.items[name].item
                at = item.name.span if isinstance(item, NAMED) else None
                found = (replace(error.diagnostic, span=at, severity=Severity.WARNING),)
            self._trials[path, name] = key, found

    def _deliver(self, path: str) -> None:
        """Send the diagnostics of a file, or make the client pull them."""
        if self.pulls:
            self.workspace_diagnostic_refresh(None)
        else:
            self._publish(path)

    async def show(
        self, path: str, offset: int, seconds: float | None = None, seed: int = 0, pins: Mapping[str, Value] = NO_PINS
    ) -> ProgramAt | None:
        """The program at an offset, from the worker process; waits at most `seconds`.

        Raises:
            WorkerFailed: the process gave no answer. With `seconds`, later questions about the item fail at once until
                a text changes: each run might take `SHOW_SECONDS`.
            TimeoutError: there was no answer in `seconds`.
        """
        snapshot = self.snapshot
        item = snapshot.item(path, offset)
        place = path, -1 if item is None else item.start
        if seconds is not None and place in self._failed:
            raise WorkerFailed(self._failed[place], transient=False)
        args = dict(snapshot.texts), self.packages, path, offset, seed, dict(pins)
        job = asyncio.ensure_future(self._previews.run("the preview", tasks.show, *args, patience=seconds))
        self._jobs.add(job)
        job.add_done_callback(self._forget)
        if seconds is not None:
            job.add_done_callback(partial(self._note_failure, snapshot, place))
        try:
            # After a timeout a run that has begun goes on: its result is cached for the next request.
            return await asyncio.wait_for(asyncio.shield(job), seconds)
        except asyncio.CancelledError:
            job.cancel()
            raise

    def _forget(self, job: asyncio.Future[ProgramAt | None]) -> None:
        self._jobs.discard(job)
        if not job.cancelled():
            job.exception()  # marks it as retrieved

    def _note_failure(self, snapshot: Snapshot, place: tuple[str, int], job: asyncio.Future[ProgramAt | None]) -> None:
        error = None if job.cancelled() else job.exception()
        if isinstance(error, WorkerFailed) and not error.transient and snapshot is self.snapshot:
            self._failed[place] = error.diagnostic

    def warm_up(self) -> None:
        """Start the process that shows programs before it is asked for one."""
        # The first diagnostics come first: both would want the same processor.
        self._warming = asyncio.get_running_loop().call_later(WARM_UP_DELAY, self._previews.start)

    def stop_workers(self) -> None:
        """End the processes."""
        for task in self._waiting.values():
            task.cancel()
        for job in self._jobs:
            job.cancel()
        if self._warming is not None:
            self._warming.cancel()
        self._previews.stop()
        self._runner.stop()

    # ------------------------------------------------------------------ the log
    def log(self, text: str) -> None:
        """A line in the client's log."""
        self.window_log_message(types.LogMessageParams(types.MessageType.Warning, f"mslang: {text}"))

    def log_failure(self, doing: str, error: Exception) -> None:
        """Log a fault of the server."""
        where = "".join(traceback.format_exception(error))
        text = f"mslang: {doing} failed: {error}\n{where}"
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, text))
