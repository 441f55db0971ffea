"""JSON-RPC for LSP: every request is answered; the answer to a malformed one says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import attrs
import cattrs
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, lsp_method

IR_AT = "mslang/irAt"
"""The request for the program at a position."""


@attrs.define
class PlainRequest:
    """A request of our own, its parameters as plain JSON."""

    id: int | str
    method: str
    jsonrpc: str
    params: Any = None


class MslangProtocol(LanguageServerProtocol):
    """The protocol. The server keeps the texts of documents itself (`documents`): pygls splits lines at characters that
    end no line in LSP."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialized = False
        self._ended = False

    def receive(self, body: bytes) -> int | None:
        """Handle one message.

        Returns:
            The exit status if the message was `exit`, else None.
        """
        try:
            data = json.loads(body)
        except (ValueError, RecursionError) as error:
            self._refuse(None, JsonRpcParseError(f"the message is not JSON in UTF-8: {error}"))
            return None
        if not isinstance(data, dict):
            what = "LSP has no batches" if isinstance(data, list) else "a message is a JSON object"
            self._refuse(None, JsonRpcInvalidRequest(what))
            return None
        method, given = data.get("method"), data.get("id")
        if method == types.EXIT:
            return 0 if self._ended else 1
        try:
            self._require(data)
            self.handle_message(self._structured(data))
        except JsonRpcException as error:
            if "id" in data:
                self._refuse(given if isinstance(given, int | str) else None, error)
            elif self._initialized:
                text = f"mslang: ignored a malformed `{method}`: {error.message}"
                self.notify(types.WINDOW_LOG_MESSAGE, types.LogMessageParams(types.MessageType.Warning, text))
            return None
        self._initialized = self._initialized or method == types.INITIALIZE
        self._ended = self._ended or method == types.SHUTDOWN
        return None

    # ------------------------------------------------------------------ documents: the server's handlers alone
    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Generator[Any]:
        """A document was opened."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Generator[Any]:
        """A document was edited."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Generator[Any]:
        """A document was closed."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CLOSE], (params,), None

    # ------------------------------------------------------------------ malformed messages
    def _require(self, data: dict[str, Any]) -> None:
        """Check everything about a message but its parameters.

        Raises:
            JsonRpcException: what to answer.
        """
        method = data.get("method")
        request = "id" in data and "method" in data
        if data.get("jsonrpc") != self.VERSION:
            raise JsonRpcInvalidRequest('a message needs `"jsonrpc": "2.0"`')
        if "id" in data and not isinstance(data["id"], int | str):
            raise JsonRpcInvalidRequest("`id` is a number or a string")
        if "method" not in data and not ("id" in data and ("result" in data or "error" in data)):
            raise JsonRpcInvalidRequest("a message has a `method`, or an `id` with a `result` or an `error`")
        if "method" in data and not isinstance(method, str):
            raise JsonRpcInvalidRequest("`method` is a string")
        if self._ended and request:
            raise JsonRpcInvalidRequest("the server has been shut down")
        if not self._initialized and method != types.INITIALIZE and "method" in data:
            raise JsonRpcServerNotInitialized("the first request is `initialize`")
        if self._initialized and method == types.INITIALIZE:
            raise JsonRpcInvalidRequest("the server is initialized already")

    def _structured(self, data: dict[str, Any]) -> Any:
        method = data.get("method")
        known = PlainRequest if method == IR_AT else None if method is None else self.get_message_type(method)
        if known is None:
            return self.structure_message(data if method is None else {"params": None, **data})
        try:
            return self._converter.structure(data, known)
        except Exception as error:
            raise JsonRpcInvalidParams(f"parameters of `{method}`: {_described(error)}") from error

    def _refuse(self, id: int | str | None, error: JsonRpcException) -> None:
        # pygls leaves out an id that is null, which JSON-RPC asks for.
        said = {"code": error.code, "message": error.message}
        self._send_data({"jsonrpc": self.VERSION, "id": id, "error": said})


def _described(error: Exception) -> str:
    """The mismatch between parameters and their type, in one line."""
    try:
        found = cattrs.transform_error(error)
    except Exception:  # noqa: BLE001 - an error that cattrs does not know is described by itself
        found = []
    return "; ".join(found).replace("\n", " ") or f"{type(error).__name__}: {error}".replace("\n", " ")
