"""The command that an interrupted `mslang tune` prints: typed, it plans the session that was interrupted."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from mslang.cli import tune
from mslang.cli.main import main
from mslang.cli.tune_write import Chosen
from mslang.tune.origin import drawn_hash

TEXT = """
program open[M: dyn(1..4096)](A: f32[M], out B: f32[M]) { block b[i: M] { B[i] = A[i] + 1.0 } }
program fixed[N = 64](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] * 2.0 } }
program equal[N = 64](X: f32[N], out Y: f32[N]) { block c[k: N] { Y[k] = X[k] * 2.0 } }
program another[K = 32](A: f32[K], out B: f32[K]) { block b[i: K] { B[i] = A[i] - 1.0 } }
"""
TILED = "schedule tiled for fixed { let t ~ choose([4, 8]) let i0, i1 = b.i.split([_, t]) }\n"

OF_THE_RUN = ("seed", "strategy", "cost_model", "features")
"""What a run keeps from its start."""

SHOWN = ("json", "quiet", "profile", "log_level", "started", "resume")
"""What changes nothing of the search."""


def planned(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> tuple[argparse.Namespace, list[Chosen]]:
    """What a command would tune."""
    found: list[tuple[argparse.Namespace, list[Chosen]]] = []

    def note(args: argparse.Namespace, chosen: list[Chosen], _: object) -> int:
        found.append((args, chosen))
        return 0

    monkeypatch.setattr(tune, "_tune", note)
    assert main([*words]) == 0
    return found[0]


def summed(chosen: list[Chosen], weights: dict[str, float]) -> list[tuple[object, ...]]:
    """Names, weights, programs and spaces of tasks."""
    items = [c.item(weights) for c in chosen]
    return [(i.name, i.weight, i.task.program, i.duplicates, drawn_hash(i.task.space)) for i in items]


@pytest.mark.parametrize(
    ("text", "items", "options"),
    [
        (TEXT, "f.ms", "--weight open=3 --weight fixed=1234567 --likely M=100:2 --likely M=3000"),
        (
            TEXT,
            "f.ms",
            "--write --db 'a b.db' --log there --backend llvm --seed 4 --strategy evolutionary --features per-store",
        ),
        (TEXT + TILED, "f.ms", "--rules quick --strict --no-log --allow-native"),
        (TEXT + TILED, "f.ms:tiled f.ms:open", "--trials 30 --budget 90m --patience 5 --cache cold --workers 2"),
        (TEXT, "f.ms:another", "--task-scheduler round-robin --target host --budget 0.5s --set K=16"),
    ],
)
def test_the_printed_command_plans_the_same_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, items: str, options: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.ms").write_text(text)
    args, chosen = planned(["tune", *items.split(), *shlex.split(options)], monkeypatch)
    again, as_well = planned(shlex.split(tune._resuming(args))[1:], monkeypatch)
    assert again.resume
    assert summed(as_well, dict(again.weights)) == summed(chosen, dict(args.weights))
    kept = vars(args).keys() - {"files", *OF_THE_RUN, *SHOWN}
    assert {k: vars(again)[k] for k in kept} == {k: vars(args)[k] for k in kept}
