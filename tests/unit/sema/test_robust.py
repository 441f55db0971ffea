"""Half-typed text: diagnostics, never an exception; a program with faults is refused with a reason."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from mslang.diagnostics import MsError
from mslang.sema.modules import load
from mslang.sema.program import instantiate

ROOT = Path(__file__).parents[2]
TEXTS = [*sorted((ROOT / "fixtures" / "samples").glob("*.ms")), *sorted((Path(__file__).parent / "cases").glob("*.ms"))]


def survives(path: str, text: str) -> None:
    module = load(path, text)
    for d in module.diagnostics:
        assert d.span is None or 0 <= d.span.start <= d.span.end <= len(text)
    for name in module.programs:
        try:
            instantiate(module, name)
        except MsError as e:
            assert e.diagnostics


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.name)
def test_prefixes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for end in range(0, len(text), 97):
        survives(str(path), text[:end])


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.name)
def test_single_token_edits(path: Path) -> None:
    tokens = re.findall(r"\s+|\w+|[^\w\s]", path.read_text(encoding="utf-8"))
    draw = random.Random(path.name)
    for _ in range(40):
        k, edited = draw.randrange(len(tokens)), list(tokens)
        match draw.randrange(3):
            case 0:
                edited[k] = ""
            case 1:
                edited[k] = draw.choice(tokens)
            case _:
                edited.insert(k, draw.choice(tokens))
        survives(str(path), "".join(edited))
