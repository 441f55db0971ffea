"""Between the URIs of documents and paths. A document that is in no file keeps its URI as its path."""

from __future__ import annotations

import re
from pathlib import Path

from pygls.uris import from_fs_path, to_fs_path

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""Two letters or more: one letter is a drive of Windows."""


def path_of(uri: str) -> str:
    """The path of a document."""
    # Some clients leave `;` as it is, which is no separator in URIs of files.
    return to_fs_path(uri.replace(";", "%3B")) or uri


def uri_of(path: str) -> str:
    """The URI of a path."""
    if _SCHEME.match(path):
        return path
    return from_fs_path(str(Path(path).absolute())) or path


def is_file(path: str) -> bool:
    """Whether a path is that of a file, and not the URI of a document that is in none."""
    return _SCHEME.match(path) is None
