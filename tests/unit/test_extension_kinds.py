"""The kind of each extension is checked where it is loaded: an object of another kind gives one diagnostic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mslang as ms
from mslang import extensions
from mslang.apply.library import library_calls
from mslang.backend.registry import back_end
from mslang.diagnostics import MsError
from mslang.extensions import BACK_ENDS, ON_REQUEST, PRIMITIVES, REDUCERS, RULES, loaded
from mslang.ir.reducers import Reducer
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.search.features.registry import extractor_named
from mslang.search.models.registry import model_named
from mslang.search.mutators import all_mutators
from mslang.search.registry import strategy_named
from mslang.sema.program import parse_program
from mslang.target.description import GENERIC
from mslang.transform.registries import Registry
from mslang.tune.builder import builder_named
from mslang.tune.callbacks import extensions_called
from mslang.tune.runner import runner_named
from mslang.tune.stores import open_store
from mslang.tune.task_scheduler import scheduler_named

PROGRAM = parse_program(
    'program scale(A: f32[8], out B: f32[8]) { block b[i: 8] { attr "schedule_rule" = "own" B[i] = A[i] * 2.0 } }'
)


def reported() -> None:
    """What `mslang env` says of reducers and of primitives; a program that needs neither goes on without them."""
    (reducer,) = loaded(REDUCERS, Reducer, frozenset({"house"}))
    assert reducer.problem is not None
    raise MsError(reducer.problem)


def primitive() -> None:
    wrong = Registry(packages=frozenset({"house"})).problem("own")
    assert wrong is not None
    raise MsError(wrong)


USES: dict[str, tuple[Callable[[], object], str]] = {
    PRIMITIVES: (primitive, "Primitive"),
    BACK_ENDS: (lambda: back_end("own"), "BackEnd"),
    REDUCERS: (reported, "Reducer"),
    RULES: (lambda: automatic_space(PROGRAM, GENERIC).sample(0), "Rule"),
    "mslang.spaces": (lambda: space_named(PROGRAM, GENERIC, "own"), "function or class"),
    "mslang.mutators": (all_mutators, "Mutator"),
    "mslang.postprocessors": (lambda: automatic_space(PROGRAM, GENERIC, ms.rules_for(GENERIC)), "Postprocessor"),
    "mslang.strategies": (lambda: strategy_named("own"), "function or class"),
    "mslang.cost_models": (lambda: model_named("own"), "function or class"),
    "mslang.features": (lambda: extractor_named("own"), "Extractor"),
    "mslang.builders": (lambda: builder_named("own"), "Builder"),
    "mslang.runners": (lambda: runner_named("own"), "Runner"),
    "mslang.callbacks": (lambda: list(extensions_called()), "Callback"),
    "mslang.task_schedulers": (lambda: scheduler_named("own"), "function or class"),
    "mslang.databases": (lambda: open_store("own:records"), "function or class"),
    "mslang.library_calls": (library_calls, "LibraryCall"),
}
"""How an extension `own` of each group is loaded, and what its kind is called."""

MODULE = """
NUMBER = 5

def anything(*args):
    return 5

class Both:
    name = "both"
    weight = 1.0

    def applies(self, leaf, leaves):
        return True

    def mutate(self, leaf, leaves, batch, stream):
        return []

    def __call__(self, event):
        pass
"""


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Installs a package `house` with one extension `own` of a group."""
    info = tmp_path / "house-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n")
    (tmp_path / "house_things.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)

    def write(group: str, value: str) -> None:
        (info / "entry_points.txt").write_text(f"[{group}]\nown = house_things:{value}\n")
        extensions.declared.cache_clear()
        extensions.extension.cache_clear()

    yield write
    monkeypatch.undo()
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()


def refusal(use: Callable[[], object]) -> MsError:
    with ms.allowing("house"), pytest.raises(MsError) as refused:
        use()
    assert len(refused.value.diagnostics) == 1
    return refused.value


def test_every_group_has_a_kind() -> None:
    assert USES.keys() == {PRIMITIVES, BACK_ENDS, *ON_REQUEST}


@pytest.mark.parametrize("group", USES)
def test_an_object_of_another_kind_is_one_error(group: str, declare: Callable[[str, str], None]) -> None:
    use, kind = USES[group]
    declare(group, "NUMBER")
    found = refusal(use).diagnostic
    assert (found.code, found.message) == ("MS212", "`own` of the package house cannot be loaded")
    article = "an" if kind == "Extractor" else "a"
    assert found.why == f"`house_things:NUMBER` is not {article} {kind} but an int"
    assert found.help is not None and "fix or uninstall house" in found.help


@pytest.mark.parametrize(("group", "kind"), [("mslang.mutators", "Mutator"), ("mslang.callbacks", "Callback")])
def test_a_class_is_no_value_of_its_kind(group: str, kind: str, declare: Callable[[str, str], None]) -> None:
    declare(group, "Both")
    found = refusal(USES[group][0]).diagnostic
    assert found.code == "MS212" and found.why == f"`house_things:Both` is not a {kind} but the class `Both`"


@pytest.mark.parametrize(
    ("group", "code", "what"),
    [
        ("mslang.databases", "MS609", "makes no record store"),
        ("mslang.task_schedulers", "MS546", "makes no task scheduler"),
        ("mslang.spaces", "MS275", "gives no space"),
    ],
)
def test_what_a_function_makes_has_a_kind_too(
    group: str, code: str, what: str, declare: Callable[[str, str], None]
) -> None:
    declare(group, "anything")
    found = refusal(USES[group][0]).diagnostic
    assert found.code == code and what in found.message
