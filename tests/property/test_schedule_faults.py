"""Whatever a schedule or a trace says, it runs or is refused with a diagnostic; nothing else is ever raised."""

from __future__ import annotations

import json
from random import Random

import pytest

from mslang.diagnostics import MsError
from mslang.schedule.replay import replay
from mslang.schedule.strategies import space_of
from mslang.schedule.trace import Trace
from mslang.sema.modules import load
from mslang.syntax.lexer import tokenize
from tests.unit.schedule.samples import PROGRAMS, SCHEDULES, space

WORDS = [
    "mm",
    "mm.i",
    "ti",
    "ti[0]",
    "i0",
    "_",
    "0",
    "64",
    "-1",
    "1.5",
    '"x"',
    "true",
    "[]",
    "[1, 2]",
    "[_, _]",
    "C",
    "split",
    "parallel",
    "machine",
    "none",
    "local",
    "(1, 2)",
    "perfect_tile",
    "permute",
    "choose",
    "tiled",
    "mark",
    "fn (a, b) -> [b, a]",
    "mm.loops()",
    "root",
    "at(i0)",
    "len",
    "min",
    "1 / 0",
    "1 // 0",
]
CASES = 240


def mutated(rng: Random) -> str:
    """The shared schedules with one to three tokens deleted, doubled, swapped or replaced."""
    tokens = [t.text for t in tokenize(SCHEDULES)]
    solid = [k for k, t in enumerate(tokens) if t.strip()]
    for _ in range(rng.randint(1, 3)):
        k = rng.choice(solid)
        match rng.randrange(4):
            case 0:
                tokens[k] = ""
            case 1:
                tokens[k] = f"{tokens[k]} {tokens[k]}"
            case 2:
                other = rng.choice(solid)
                tokens[k], tokens[other] = tokens[other], tokens[k]
            case 3:
                tokens[k] = rng.choice(WORDS)
    return PROGRAMS + "".join(tokens)


@pytest.mark.parametrize("part", range(4))
def test_broken_schedules_are_refused_with_a_diagnostic(part: int):
    ran = refused = 0
    for case in range(CASES // 4):
        text = mutated(Random(case * 4 + part))
        module = load("broken.ms", text)
        for name in ("tiled", "helpers", "free", "either"):
            try:
                space_of(module, name).attempt(0)
                ran += 1
            except MsError as error:
                assert error.diagnostics and all(d.code.startswith("MS") and d.message for d in error.diagnostics), text
                refused += 1
    assert ran > 10 and refused > 0


def mangled(value: object, rng: Random) -> object:
    """A value somewhere in JSON data replaced, doubled or taken away."""
    match value:
        case dict() if value and rng.random() < 0.8:
            key = rng.choice(list(value))
            if rng.random() < 0.15:
                return {k: v for k, v in value.items() if k != key}
            return {**value, key: mangled(value[key], rng)}
        case list() if value and rng.random() < 0.8:
            k = rng.randrange(len(value))
            if rng.random() < 0.15:
                return [*value[:k], *value[k + 1 :]]
            return [*value[:k], mangled(value[k], rng), *value[k + 1 :]]
    return rng.choice(
        [
            None,
            0,
            1,
            64,
            -3,
            1.5,
            True,
            "mm",
            "i0",
            "split",
            [],
            {},
            [1, 2],
            {"handle": "mm"},
            {"handle": "ti", "axis": "i"},
            {"handle": "mm", "loop": 99},
            {"size": ["+", 1, 2]},
        ]
    )


@pytest.mark.parametrize("name", ["tiled", "helpers", "free"])
def test_broken_traces_are_refused_with_a_diagnostic(name: str):
    made = space(name)
    data = json.loads(made.sample(0).trace.as_json())
    ran = refused = 0
    for case in range(150):
        rng = Random(case)
        text = json.dumps(mangled(data, rng))
        try:
            replay(made.program, Trace.from_json(text))
            ran += 1
        except MsError as error:
            assert error.diagnostics[0].code.startswith("MS")
            refused += 1
    assert refused > 50 and ran > 0
