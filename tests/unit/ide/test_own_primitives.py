"""Primitives of installed packages in the editor: it knows those that are allowed, and runs nothing of others."""

import shutil
import sys
from pathlib import Path

import pytest
from mslang_lsp.server import _allowed

from mslang import extensions as discovery
from mslang.ide.candidates import documentation
from mslang.ide.completion import completions
from mslang.ide.findings import findings
from mslang.ide.hover import hover
from mslang.ide.program_at import program_at
from mslang.ide.signature import signature_at
from mslang.ide.snapshot import Snapshot

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_primitive"
TEXT = (EXAMPLE / "axpy.ms").read_text()
AT = TEXT.index("interleave")


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    shutil.copytree(EXAMPLE / "own_primitive", tmp_path / "own_primitive")
    info = tmp_path / "own_primitive-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-primitive\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[mslang.primitives]\ninterleave = own_primitive.interleave:interleave\n")
    monkeypatch.syspath_prepend(tmp_path)
    discovery.declared.cache_clear()
    discovery.extension.cache_clear()
    yield
    discovery.declared.cache_clear()
    discovery.extension.cache_clear()
    for name in [n for n in sys.modules if n.partition(".")[0] == "own_primitive"]:
        del sys.modules[name]


def snapshot(*packages: str) -> Snapshot:
    return Snapshot({"axpy.ms": TEXT}, packages=frozenset(packages))


def test_an_allowed_one_is_like_any_other():
    s = snapshot("own-primitive")
    assert findings(s.module("axpy.ms")) == ()
    shown = hover(s, "axpy.ms", AT + 2)
    assert "loop.interleave(ways) -> loop, loop" in shown.text and "Deal a loop's iterations" in shown.text
    offered = {c.label: c for c in completions(s, "axpy.ms", AT)}
    assert offered["interleave"].signature.params[1].name == "ways"
    assert "Deal a loop's" in documentation(s.module("axpy.ms"), offered["interleave"].key)
    assert signature_at(s, "axpy.ms", AT + len("interleave(")).parameter.name == "ways"
    there = program_at(s, "axpy.ms", TEXT.index("    way.parallel()") - 1, 0, {})
    assert "for way in" in there.after


def test_another_is_one_diagnostic_and_is_not_imported():
    s = snapshot()
    (found,) = findings(s.module("axpy.ms"))
    assert found.code == "MS215" and TEXT[found.span.start : found.span.end] == "interleave"
    assert "own-primitive" in found.help
    assert hover(s, "axpy.ms", AT + 2) is None or "Deal" not in hover(s, "axpy.ms", AT + 2).text
    assert "interleave" not in {c.label for c in completions(s, "axpy.ms", AT)}
    assert "own_primitive.interleave" not in sys.modules


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        (None, ()),
        ({}, ()),
        ({"primitives": {"allowed": ["a", "b"]}}, ("a", "b")),
        ({"primitives": ["a"]}, ()),
        ({"primitives": {"allowed": "a"}}, ()),
    ],
)
def test_what_the_client_allows(options, allowed):
    assert _allowed(options) == frozenset(allowed)
