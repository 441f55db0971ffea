"""Messages on a byte stream: header lines, a blank line, then as many bytes as the header says."""

from __future__ import annotations

from typing import BinaryIO

LONGEST_MESSAGE = 1 << 28
"""Bytes; a larger `Content-Length` is invalid."""

_LONGEST_LINE = 1 << 16


def read_message(stream: BinaryIO) -> bytes | None:
    """The body of the next message, or None at the end of the stream.

    Names of headers may be in any case, and lines may end with `\\n` alone; header blocks without a usable
    `Content-Length` are skipped.
    """
    length: int | None = None
    while line := stream.readline(_LONGEST_LINE):
        header = line.strip()
        if not header:
            if length is not None:
                body = stream.read(length)
                return body if len(body) == length else None
            continue
        name, _, value = header.partition(b":")
        if name.strip().lower() == b"content-length":
            length = _length(value.strip())
    return None


def _length(value: bytes) -> int | None:
    if not value.isdigit() or len(value) > 12:
        return None
    length = int(value)
    return length if length <= LONGEST_MESSAGE else None
