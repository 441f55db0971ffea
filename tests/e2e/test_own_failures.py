"""A user's own code that raises an exception: one diagnostic says whose error it is, and every record is kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import command, json_lines
from test_own_primitive import install

from mslang.tune.database import Database

SMALL = """
program twice[N = 16](A: f32[N, N, N], out B: f32[N, N, N]) {
    block d[i: N, j: N, k: N] { B[i, j, k] = A[i, j, k] * 2.0 }
}
schedule tiled for twice {
    let ti ~ perfect_tile(d.i, n = 3)
    let tj ~ perfect_tile(d.j, n = 3)
    let tk ~ perfect_tile(d.k, n = 3)
    d.i.split(ti)
    d.j.split(tj)
    d.k.split(tk)
}
"""
FAULTY = '''"""Extensions that fail."""

from mslang.search.around import around
from mslang.search.features.extractor import PerStore
from mslang.search.replay_trace import ReplayTrace


def fail():
    raise ValueError("not today")


class Unmade:
    def __init__(self, problem):
        fail()


class Proposing(ReplayTrace):
    def propose(self, n):
        return super().propose(2) if not self.seen() else fail()

    def seen(self):
        self.calls = getattr(self, "calls", 0) + 1
        return self.calls > 1


class Odd(ReplayTrace):
    def propose(self, n):
        return ["a candidate"]


class Observing(ReplayTrace):
    def observe(self, observed):
        around(1)


class Model:
    def __init__(self, names, seed):
        pass

    def update(self, features, cost, censored):
        pass

    def predict(self, features):
        return features[0]


class Learning(Model):
    def update(self, features, cost, censored):
        fail()


class Features:
    name = "faulty"

    def rows(self, f, sketch, summary, target):
        fail()


class Mutating:
    name, weight = "faulty", 10.0

    def applies(self, leaf, leaves):
        return True

    def mutate(self, leaf, leaves, batch, stream):
        fail()


class Scheduler:
    def next(self, tasks):
        return fail() if tasks[0].trials else 0


class Astray:
    def next(self, tasks):
        return len(tasks)


class Callback:
    def __call__(self, event):
        fail()


features, mutating, callback = Features(), Mutating(), Callback()
'''
POINTS = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "faulty"
version = "0.1.0"

[project.entry-points."mslang.strategies"]
unmade = "faulty.code:Unmade"
proposing = "faulty.code:Proposing"
odd = "faulty.code:Odd"
observing = "faulty.code:Observing"

[project.entry-points."mslang.cost_models"]
predicting = "faulty.code:Model"
learning = "faulty.code:Learning"

[project.entry-points."mslang.features"]
faulty = "faulty.code:features"

[project.entry-points."mslang.task_schedulers"]
failing = "faulty.code:Scheduler"
astray = "faulty.code:Astray"
"""

Tune = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    """Run `mslang tune twice.ms:tiled` with a package of extensions that fail; `more` are further entry points."""
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "twice.ms").write_text(SMALL)

    def run(*words: str, more: str = "", json: bool = True) -> subprocess.CompletedProcess[str]:
        package = tmp_path / "package"
        (package / "faulty").mkdir(parents=True)
        (package / "faulty" / "__init__.py").write_text('"""Faulty."""\n')
        (package / "faulty" / "code.py").write_text(FAULTY)
        (package / "pyproject.toml").write_text(POINTS + more)
        install(package, site)
        path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        options = ("--json",) if json else ()
        line = command("tune", "twice.ms:tiled", "--workers", "1", *words, "--extension", "faulty", *options)
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)

    return run


def line_of(text: str, number: int = 0) -> int:
    """The line of the faulty code in which a text is for the first, second, … time."""
    return [k for k, line in enumerate(FAULTY.splitlines(), 1) if text in line][number]


RAISED = line_of("raise ValueError")
EVOLVED = ("--strategy", "evolutionary", "--trials", "24")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("words", "message", "why", "records"),
    [
        (("--strategy", "unmade"), "strategy `faulty.code.Unmade` failed", RAISED, 0),
        (("--strategy", "proposing"), "strategy `faulty.code.Proposing` failed in `propose`", RAISED, 2),
        (("--strategy", "odd"), "strategy `faulty.code.Odd` failed in `propose`", line_of("def propose", 1), 0),
        (("--strategy", "observing"), "strategy `faulty.code.Observing` failed in `observe`", line_of("around(1)"), 16),
        ((*EVOLVED, "--cost-model", "predicting"), "cost model `faulty.code.Model` failed in `predict`", None, 16),
        ((*EVOLVED, "--cost-model", "learning"), "cost model `faulty.code.Learning` failed in `update`", RAISED, 16),
        (
            (*EVOLVED, "--features", "faulty"),
            "extractor of features `faulty.code.Features` failed in `rows`",
            RAISED,
            16,
        ),
        (("--task-scheduler", "failing"), "task scheduler `faulty.code.Scheduler` failed in `next`", RAISED, 16),
        (("--task-scheduler", "astray"), "task scheduler `faulty.code.Astray` failed in `next`", None, 0),
    ],
    ids=lambda value: "-".join(value).replace("--", "") if isinstance(value, tuple) else None,
)
def test_the_message_says_whose_error_it_is(
    tune: Tune, tmp_path: Path, words: tuple[str, ...], message: str, why: int | None, records: int
) -> None:
    done = tune(*words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "MS999" not in done.stderr
    [failed] = [x for x in json_lines(done.stdout) if x.get("code") == "MS549"]
    assert failed["message"] == f"the {message}"
    code = tmp_path / "site" / "faulty" / "code.py"
    assert why is None or failed["why"].endswith(f"({code}:{why})"), failed["why"]
    assert why != RAISED or failed["why"].startswith("ValueError: not today")
    with Database(tmp_path / ".mslang" / "records.db", read_only=True) as store:
        assert len(list(store.records())) == records


def test_a_mutator_that_fails_is_named(tune: Tune, tmp_path: Path) -> None:
    more = '\n[project.entry-points."mslang.mutators"]\nfaulty = "faulty.code:mutating"\n'
    done = tune(*EVOLVED, more=more, json=False)
    assert done.returncode == 1
    assert "error[MS549]: the mutator `faulty.code.Mutating` failed in `mutate`" in done.stdout + done.stderr
    assert f"code.py:{RAISED})" in done.stdout + done.stderr


def test_a_callback_that_fails_is_a_warning_with_its_line(tune: Tune, tmp_path: Path) -> None:
    more = '\n[project.entry-points."mslang.callbacks"]\nfaulty = "faulty.code:callback"\n'
    done = tune("--trials", "2", more=more)
    assert done.returncode == 0, done.stderr
    [warned] = [x for x in json_lines(done.stdout) if x.get("code") == "MS545"]
    assert warned["why"] == f"ValueError: not today ({tmp_path / 'site' / 'faulty' / 'code.py'}:{RAISED})"
