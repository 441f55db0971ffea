"""What a user tries first: `ms.build` and `ms.tune` on whatever stands for a program, short reprs, whole errors."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from mslang.diagnostics import TargetError
from mslang.search.features.extractor import PerStore
from mslang.search.models.model import DraftModel
from mslang.search.mutators import MUTATORS, MutateStructure
from mslang.search.replay_trace import ReplayTrace
from mslang.tune.runner import StandardRunner

TEXT = """
program p(A: f32[64], out C: f32[64]) { block a[i: 64] { C[i] = A[i] + 1.0 } }
schedule s for p { let t ~ choose([2, 4, 8]) let i0, i1 = a.i.split([_, t]) }
"""
ALONE = TEXT.splitlines()[1]
DYNAMIC = "program p[M: dyn(1..64)](A: f32[M], out C: f32[M]) { block a[i: M] { C[i] = A[i] + 1.0 } }"


def scheduled() -> ms.Schedule:
    schedule = ms.Schedule(ms.parse(TEXT).program())
    schedule.vectorize(schedule.axis("a", "i"))
    return schedule


BUILDABLE: list[Callable[[], object]] = [
    lambda: ms.parse(TEXT).program(),
    scheduled,
    lambda: ms.parse(TEXT).space("s"),
    lambda: ms.parse(TEXT).space("s").sample(0),
    lambda: ms.parse(ALONE),
]


class GivesPrograms:
    """A pass that gives a program in place of `Served`."""

    name = "mine"

    def serve(self, program: object, target: object) -> object:
        return program


@pytest.mark.parametrize("what", BUILDABLE, ids=["program", "schedule", "space", "candidate", "source"])
@pytest.mark.parametrize("target", [None, "host", "generic"])
def test_whatever_stands_for_a_program_is_built(what: Callable[[], object], target: str | None) -> None:
    kernel = ms.build(what(), target)
    assert (kernel(np.zeros(64, np.float32)) == 1).all() and repr(kernel) == "<kernel p(A, C)>"


def test_a_space_is_built_with_the_decisions_asked_for() -> None:
    with pytest.raises(ms.MsError, match="MS251"):
        ms.build(ms.parse(TEXT).space("s"), pins={"u": 4})


def test_a_byte_order_mark_is_no_part_of_a_text() -> None:
    assert ms.parse("\ufeff" + TEXT).programs == ms.parse(TEXT).programs
    assert ms.parse_program("\ufeff" + ALONE) == ms.parse_program(ALONE)


def test_a_program_is_tuned_in_the_automatic_space(tmp_path) -> None:
    tuned = ms.tune(ms.parse(TEXT).program(), trials=1, workers=1, database=tmp_path / "r.db")
    assert tuned.done.tally.trials == 1 and repr(tuned).startswith("<tuned p: ")
    assert (ms.build(tuned)(np.zeros(64, np.float32)) == 1).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ms.build("gemm.ms"), ["MS706", "not 'gemm.ms'", "ms.load(path)"]),
        (lambda: ms.build(ms.parse(TEXT)), ["MS704", "p, s", "ms.build(source.space('s'))"]),
        (lambda: ms.tune(scheduled()), ["MS706", "a space or a program", "<schedule of p"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), trials=0), ["MS706", "`trials`", "is 0"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), seed=-1), ["MS706", "`seed` of `ms.tune` is -1", "from 0 to"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, seed=2**63), ["MS706", "`seed` of `ms.tune_all` is 9"]),
        (lambda: ms.tune_all(ms.parse(TEXT)), ["MS706", "programs and spaces by name"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, trials=1.5), ["MS706", "`trials` of `ms.tune_all` is 1.5"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, workers=10**8), ["MS706", "`workers`", "at most"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), database=5), ["MS706", "`database` of `ms.tune` is 5", "`Store`"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, database=5), ["MS706", "`database` of `ms.tune_all` is 5"]),
        (lambda: ms.apply(ms.parse(TEXT), database=5), ["MS706", "`database` of `ms.apply` is 5"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, patience=0), ["MS706", "`patience` of `ms.tune_all` is 0"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, likely=[{"M": 3}]), ["MS706", "`likely`", "{'M': 3}", "how often"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, likely=[({"M": "3"}, 1)]), ["MS706", "`likely`", "{'M': '3'}"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, likely=[({"M": 3}, 0)]), ["MS706", "`likely`", "0"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT).program()}, likely=[({"M": 3}, 1)]), ["MS706", "only at the call"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT).space("s")}, likely=[({"M": 3}, 1)]), ["MS706", "`likely`"]),
        (lambda: ms.build(ms.parse(TEXT).program(), 5), ["MS706", "5 is not a target", "'avx2'"]),
        (lambda: ms.apply(ms.parse(TEXT), target=5), ["MS706", "5 is not a target"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), target=5), ["MS706", "5 is not a target"]),
        (lambda: ms.parse(TEXT).space("s", target=5), ["MS706", "5 is not a target"]),
        (lambda: ms.build(ms.parse(TEXT).program(), backend=5), ["MS706", "`backend` is 5"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), target="axv2"), ["MS703", "did you mean `avx2`?"]),
        (lambda: ms.parse(TEXT).space("s", target="axv2"), ["MS703", "did you mean `avx2`?"]),
        (lambda: ms.parse(TEXT).space("s").sample(0, {"t": 5}, strict=True), ["MS254", "t = 5"]),
        (lambda: ms.build(ms.parse(TEXT).space("s"), pins={"t": 5}), ["MS254", "t = 5"]),
        (lambda: ms.build(ms.parse(TEXT).space("s"), pins={"none": 5}), ["MS251", "`none`"]),
        (lambda: ms.build(ms.parse(TEXT).program(), pins={"t": 4}), ["MS251", "`t`", "<program p", "source.space"]),
        (lambda: ms.tune(ms.parse(TEXT).program(), seconds=float("nan")), ["MS706", "`seconds` of `ms.tune` is nan"]),
        (lambda: ms.tune(ms.parse(TEXT).program(), seconds=-1), ["MS706", "`seconds` of `ms.tune` is -1"]),
        (lambda: ms.tune(ms.parse(TEXT).program(), seconds="5s"), ["MS706", "'5s'", "seconds above 0"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, seconds=0), ["MS706", "`seconds` of `ms.tune_all` is 0"]),
        (lambda: ms.profile_kernel(ms.parse(TEXT).program(), seconds=0), ["MS706", "`ms.profile_kernel` is 0"]),
        (lambda: ms.apply(ms.parse(TEXT), "db"), ["MS706", "'db'", "write `passes=['db']`"]),
        (lambda: ms.apply(ms.parse(TEXT), "db,default"), ["MS706", "write `passes=['db', 'default']`"]),
        (lambda: ms.apply(ms.parse(TEXT), ms.LibraryCall("c", ALONE, np.add)), ["MS706", "write `passes=[…]`"]),
        (lambda: ms.apply(ms.parse(TEXT), patterns=ms.parse(TEXT)), ["MS706", "`patterns`", "write `patterns=[…]`"]),
        (lambda: ms.apply(ms.parse(TEXT), [7]), ["MS706", "a method `serve`", "not 7"]),
        (lambda: ms.apply(ms.parse(TEXT), [GivesPrograms()]), ["MS706", "the pass `mine` gave <program p(A, C)>"]),
        (lambda: ms.apply(ms.parse(TEXT), patterns=["own.ms"]), ["MS706", "sources as patterns", "ms.load(path)"]),
        (lambda: ms.apply(7), ["MS706", "a source or programs, not 7"]),
        (lambda: ms.profile_kernel(ms.parse(TEXT).program(), parts="mm"), ["MS706", "write `parts=['mm']`"]),
        (lambda: ms.profile_kernel(ms.parse(TEXT).program(), seconds=None), ["MS706", "`ms.profile_kernel` is None"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, weights={"a": "2"}), ["MS706", "'a': '2'", "positive number"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, weights=[2]), ["MS706", "weights by name", "not [2]"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, likely=3), ["MS706", "`likely` of `ms.tune_all` is 3"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), strategy="anealing"), ["MS515", "`anealing`", "evolutionary"]),
        (
            lambda: ms.tune(ms.parse(TEXT).space("s"), strategy=5),
            ["MS706", "`strategy` of `ms.tune` is 5", "`Problem`"],
        ),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, strategy=None), ["MS706", "`strategy` of `ms.tune_all` is None"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), cost_model="xgbost"), ["MS525", "`xgbost`", "did you mean"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), cost_model=DraftModel()), ["MS706", "`cost_model`", "and a seed"]),
        (
            lambda: ms.tune(ms.parse(TEXT).space("s"), strategy="replay_trace", cost_model="draft"),
            ["MS706", "`cost_model` of `ms.tune` has no effect", "`replay_trace` does not rank", "or `exhaustive`"],
        ),
        (
            lambda: ms.tune_all({"a": ms.parse(TEXT)}, strategy=lambda p: ReplayTrace(p), features=PerStore()),
            ["MS706", "`features` of `ms.tune_all` has no effect", 'has `uses = ("models",)`'],
        ),
        (
            lambda: ms.tune(ms.parse(TEXT).space("s"), strategy="exhaustive", mutators=MUTATORS),
            ["MS706", "`mutators` of `ms.tune` has no effect", "`exhaustive` does not mutate", "or `evolutionary`"],
        ),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), mutators="swap"), ["MS706", "write `mutators=['swap']`"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), mutators=["swap"]), ["MS706", "`mutators` of `ms.tune` is 'swap'"]),
        (
            lambda: ms.tune(ms.parse(TEXT).space("s"), mutators=[MutateStructure]),
            ["MS706", "`mutators`", "write `MutateStructure()`"],
        ),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), features="none"), ["MS271", "`none`", "`mslang.features`"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), features=len), ["MS706", "`features`", "an extractor of features"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), features=PerStore), ["MS706", "write `features=PerStore()`"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), cache="hot"), ["MS706", "`cache` of `ms.tune` is 'hot'", '"cold"']),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), builder="none"), ["MS271", "`none`", "`mslang.builders`"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), builder=""), ["MS706", "`builder` of `ms.tune` is ''"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, builder=7), ["MS706", "`builder` of `ms.tune_all` is 7"]),
        (
            lambda: ms.tune_all({"a": ms.parse(TEXT)}, runner=StandardRunner),
            ["MS706", "write `runner=StandardRunner()`"],
        ),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, scheduler=7), ["MS706", "`scheduler` of `ms.tune_all` is 7"]),
        (lambda: ms.tune_all({"a": ms.parse(TEXT)}, callbacks=print), ["MS706", "`callbacks`", "it is a list"]),
        (lambda: ms.tune(ms.parse(TEXT).space("s"), callbacks=print), ["MS706", "`callbacks` of `ms.tune`"]),
        (lambda: ms.profile_kernel(ms.parse(DYNAMIC).program()), ["MS112", "`source.program(name, M=…)`"]),
        (lambda: ms.empty(np.array([2, 3]), "f32"), ["MS412", "array([2, 3])"]),
        (lambda: ms.Database(":memory:").top(n=-1), ["MS706", "-1", "from 0 on"]),
        (lambda: ms.parse("program p( {"), ["MS0", "text.ms:1:"]),
        (lambda: ms.parse(TEXT.replace("a.i", "a.j")), ["error[MS204]", "text.ms:3:", "let i0, i1 = a.j", "^\n"]),
    ],
)
def test_a_bad_value_is_an_error_that_says_all_of_its_diagnostic(call: Callable[[], object], said: list[str]) -> None:
    with pytest.raises(ms.MsError) as error:
        call()
    for part in said:
        assert part in str(error.value)


@pytest.mark.skipif(sys.platform == "win32", reason="`:` is no part of a file's name there")
def test_a_store_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    for name in ("records.db", "a:b.db"):
        (done,) = ms.apply(ms.parse(TEXT), ["db"], database=tmp_path / name)
        assert done.explanation().endswith("db missed: no record of this program")
    (done,) = ms.apply(ms.parse(TEXT), ["db", "default"], database=None)
    assert done.by == "default"
    with pytest.raises(ms.MsError, match="MS603"):
        ms.apply(ms.parse(TEXT), ["db"], database=f"union:{tmp_path / 'a.db'},{tmp_path / 'b.db'}")


def test_a_target_that_this_machine_cannot_run_is_refused() -> None:
    with pytest.raises(TargetError, match=r"for .?cuda"):
        ms.build(ms.parse(TEXT).program(), "cuda")


def test_reprs_are_short_and_notebooks_get_rich_ones() -> None:
    source = ms.parse(TEXT)
    space = source.space("s")
    candidate = space.sample(0)
    shown = [source, source.program(), space, candidate, candidate.trace, scheduled()]
    for value in (*shown, candidate.sketch):
        assert len(repr(value)) < 80 and "\n" not in repr(value)
    assert repr(source.program()) == "<program p(A, C)>" and "t = " in repr(candidate)
    for value in shown:
        assert "<pre>" in value._repr_html_() and "split" in scheduled()._repr_html_() + candidate.trace._repr_html_()


@pytest.mark.parametrize("name", ["self", "name"])
def test_a_size_may_be_called_as_an_argument_is(name: str) -> None:
    source = ms.parse(f"program p[{name} = 4](out C: f32[{name}]) {{ block b[i: {name}] {{ C[i] = 1.0 }} }}")
    assert ms.build(source.program("p", **{name: 3}))().shape == (3,)


def test_a_parameter_may_be_called_self():
    program = ms.parse("program p(self: f32[4], out C: f32[4]) { block b[i: 4] { C[i] = self[i] + 1.0 } }").program("p")
    x = np.ones(4, np.float32)
    for backend in ("llvm", "reference"):
        kernel = ms.build(program, backend=backend)
        assert kernel(self=x).tolist() == [2, 2, 2, 2]
        assert kernel.bind(self=x, C=np.empty(4, np.float32)) is not None
