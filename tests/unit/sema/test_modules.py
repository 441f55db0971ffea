"""Modules: files that use each other, what their names mean, consts, targets, and what is remembered."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from mslang.diagnostics import MsError
from mslang.ops.infos import info
from mslang.ops.library import LIBRARY
from mslang.ops.signature import REQUIRED, Kind
from mslang.sema import program
from mslang.sema.consteval import evaluate
from mslang.sema.module import Found, Module, Whole
from mslang.sema.modules import load, read_disk
from mslang.sema.native import BUILTINS, MODULES, Native
from mslang.sema.program import checked
from mslang.sema.targets import describe, field_names
from mslang.sema.values import const_value
from mslang.syntax.parse import parse_expression

SAMPLES = Path(__file__).parents[2] / "fixtures" / "samples"


def of(texts: Mapping[str, str], path: str = "main.ms") -> Module:
    return load(path, reader=lambda p: texts[p] if p in texts else read_disk(p))


def codes(m: Module) -> list[str]:
    return [d.code for d in m.diagnostics]


# ------------------------------------------------------------------ files
def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(MsError) as caught:
        load("/nowhere/at/all.ms")
    assert caught.value.diagnostic.code == "MS120"


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.ms").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MsError):
        load(str(tmp_path / "a.ms"))


def test_paths_count_from_the_file_that_uses_them() -> None:
    texts = {
        "a/main.ms": 'use "../b/lib.ms".{n}\nuse sub.inner.{m}',
        "b/lib.ms": "const n = 3",
        "a/sub/inner.ms": 'use "../../b/lib.ms".{n}\nconst m = n + 1',
    }
    found = of(texts, "a/main.ms")
    assert found.diagnostics == ()
    assert const_value(found, "m") == 4


def test_unsaved_text_goes_before_the_disk(tmp_path: Path) -> None:
    (tmp_path / "lib.ms").write_text("const n = 1", encoding="utf-8")
    main = str(tmp_path / "main.ms")
    text = 'use "./lib.ms".{n}\nconst m = n'
    assert const_value(load(main, text), "m") == 1
    unsaved = {str(tmp_path / "lib.ms"): "const n = 2"}
    assert const_value(load(main, text, lambda p: unsaved.get(p) or read_disk(p)), "m") == 2


def test_a_circle_is_reported_in_each_file_of_it_once() -> None:
    texts = {
        "a.ms": 'use "./b.ms".{y}\nconst x = 1',
        "b.ms": 'use "./c.ms".{z}\nconst y = 2',
        "c.ms": 'use "./a.ms".{x}\nconst z = 3',
        "d.ms": 'use "./a.ms".{x}',
    }
    for path in ("a.ms", "b.ms", "c.ms"):
        assert codes(of(texts, path)) == ["MS122"]
    assert codes(of(texts, "d.ms")) == []


def test_faults_of_a_used_file_are_not_reported_where_it_is_used() -> None:
    texts = {"main.ms": 'use "./lib.ms".{n}', "lib.ms": "const n = 3\nconst bad = nothing\nprogram p( {"}
    assert codes(of(texts)) == []


# ------------------------------------------------------------------ names
def test_the_library_is_found_by_its_dotted_names() -> None:
    m = of(
        {
            "main.ms": """use std.cpu.{avx512, host}
        use std.cpu as c
        use std.x86.avx2
        use std.testing.{equiv}
        space s = std.tiling.multi_level("SSR")
        """
        }
    )
    assert m.diagnostics == ()
    assert isinstance(m.find("avx512"), Found)
    assert isinstance(m.find("c"), Whole)
    for name, address in (
        ("c.host", "std.cpu.host"),
        ("host", "std.cpu.host"),
        ("equiv", "std.testing.equiv"),
        ("std.tiling.multi_level", "std.tiling.multi_level"),
        ("sample", "sample"),
    ):
        thing = m.find(name)
        assert isinstance(thing, Native)
        assert thing.address == address
    assert m.find("c.avx51") is None
    assert m.find("c.sample") is None


def test_items_by_kind() -> None:
    m = load(str(SAMPLES / "wmma.ms"))
    assert list(m.programs) == ["matmul_f16"]
    assert list(m.schedules) == ["wmma_shared"]
    assert (list(m.fns), list(m.intrins), list(m.targets)) == (["stage"], ["wmma_16x16x16"], ["a100"])
    assert (list(m.rules), list(m.spaces), list(m.consts)) == ([], [], [])
    assert len(m.tests) == 2


def test_suggestions_have_a_fix_at_the_name() -> None:
    text = "use std.cpu.{avx51}"
    (found,) = of({"main.ms": text}).diagnostics
    assert found.fixes[0].text == "avx512"
    assert text[found.fixes[0].span.start : found.fixes[0].span.end] == "avx51"


@pytest.mark.parametrize(
    "source", [r'"a\0b.ms"', "`a\0b`", f'"{"a" * 300}.ms"', "a" * 300, f"std.{'a' * 300}", '"loop"']
)
def test_a_path_that_no_file_can_have(tmp_path: Path, source: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (found,) = load(str(tmp_path / "main.ms"), f"use {source}.{{x}}").diagnostics
    assert found.code == "MS120"


def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ms")
    found = load(str(tmp_path / "main.ms"), 'use "pipe.ms".{x}\nuse pipe.{y}\nuse "/dev/zero".{z}').diagnostics
    assert [d.code for d in found] == ["MS120"] * 3


# ------------------------------------------------------------------ what is remembered
def test_an_edit_of_one_item_checks_that_one_only() -> None:
    text = "".join(
        f"program p{k}[N = 8](x: f32[N], out y: f32[N]) {{ block b[i: N] {{ y[i] = x[i] }} }}\n" for k in range(20)
    )
    checked.cache_clear()
    assert of({"main.ms": text}).diagnostics == ()
    before = checked.cache_info().misses
    edited = "const moves_all_the_rest = 1\n" + text.replace("program p7[N = 8]", "program p7[N = 9]")
    assert of({"main.ms": edited}).diagnostics == ()
    assert (before, checked.cache_info().misses) == (20, 21)


def test_an_item_is_checked_again_when_a_const_that_it_names_changes() -> None:
    text = "const n = {}\nprogram p(x: f32[8], out y: f32[8]) {{ block b[i: n] {{ y[i] = x[i] }} }}"
    assert codes(of({"main.ms": text.format(8)})) == []
    assert codes(of({"main.ms": text.format(9)})) == ["MS118", "MS118"]


def test_diagnostics_move_with_their_item() -> None:
    text = "program p(out y: f32[8]) { block b[i: 8] { y[i] = zz } }"
    (at_start,) = of({"main.ms": text}).diagnostics
    (moved,) = of({"main.ms": "const a = 1\n" + text}).diagnostics
    assert at_start.span is not None
    assert moved.span == at_start.span.shifted(12)
    assert program.checked.cache_info().maxsize is not None


# ------------------------------------------------------------------ constants and targets
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("164KiB", 164 * 1024),
        ("2 * 3 + 4 % 3", 7),
        ("7 // 2 - -1", 4),
        ("1.0 / 4", 0.25),
        ("not 1 < 2 or true", True),
        ('[1, "a"] + [true]', (1, "a", True)),
        ("min(3, 2) + max(1, 4)", 6),
        ("(1 == 1) != false", True),
        ("inf", float("inf")),
    ],
)
def test_constant_expressions(text: str, value: object) -> None:
    assert evaluate(parse_expression(text)) == value


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("1 / 2", "MS108"),
        ("1 // 0", "MS113"),
        ("x", "MS101"),
        ("exp(1)", "MS113"),
        ("1 + true", "MS104"),
        ("1 and true", "MS104"),
        ("1 .. 2", "MS127"),
        ("_", "MS113"),
    ],
)
def test_what_is_no_constant(text: str, code: str) -> None:
    with pytest.raises(MsError) as caught:
        evaluate(parse_expression(text))
    assert caught.value.diagnostic.code == code


def test_targets_extend_each_other_and_add_fields() -> None:
    m = of(
        {
            "main.ms": """use std.x86.{avx512}
        const lanes = 4
        target mine = avx512 { cores = 8 l2 = 2MiB warp = 32 ratio = 0.5 }
        target wider = mine { vector_lanes = 2 * lanes features = ["avx"] }
        target gpu = cuda { arch = "sm_80" }"""
        }
    )
    assert m.diagnostics == ()
    mine, wider = describe(m, "mine"), describe(m, "wider")
    assert (mine.name, mine.kind, mine.cores, mine.l2, mine.vector_lanes) == ("mine", "cpu", 8, 2 * 1024 * 1024, 16)
    assert mine.fields["warp"] == 32
    assert (wider.cores, wider.vector_lanes, wider.features, wider.fields["ratio"]) == (8, 8, ("avx",), 0.5)
    assert describe(m, "gpu").kind == "cuda"
    assert set(field_names(m, "wider")) == set(wider.fields)
    assert describe(m, "cpu").name == "generic"


@pytest.mark.parametrize(("name", "code"), [("avx5123", "MS124"), ("p", "MS128")])
def test_targets_that_are_none(name: str, code: str) -> None:
    m = of({"main.ms": "use std.cpu.{avx512}\nprogram p(out y: f32[1]) { block b[i: 1] { y[i] = 0.0 } }"})
    with pytest.raises(MsError) as caught:
        describe(m, name)
    assert caught.value.diagnostic.code == code


# ------------------------------------------------------------------ what is said of items
def test_every_native_function_and_rule_has_a_signature() -> None:
    natives = {n.address for names in MODULES.values() for n in names.values() if n.role != "target"}
    assert set(LIBRARY) == natives | set(BUILTINS)


def test_infos() -> None:
    m = load(str(SAMPLES / "matmul.ms"))
    schedule, space, target = info(m, "ssrsrs"), info(m, "cpu_matmul"), info(m, "avx512")
    assert schedule is not None and space is not None and target is not None
    assert schedule.header == "schedule ssrsrs(max_inner: int = 64) for matmul on avx512"
    assert schedule.doc == "Tile S S R S R S: L2 tile, L1 tile, reduction tile, register tile."
    assert schedule.signature is not None
    assert schedule.signature.params[0].kind is Kind.INT
    assert (schedule.signature.params[0].default, schedule.program, schedule.target) == (64, "matmul", "avx512")
    assert m.file.text[schedule.span.start : schedule.span.end] == "ssrsrs" if schedule.span else False
    assert (space.role, space.program) == ("space", "matmul")
    assert "vector_lanes" in target.fields
    assert target.path is not None and target.path.endswith("x86.ms")
    matmul = info(m, "matmul")
    assert matmul is not None
    assert matmul.header.endswith("(A: f32[M, K], B: f32[K, N], out C: f32[M, N])")
    assert [s.name.text for s in matmul.sizes] == ["M", "N", "K"]
    assert info(m, "nothing") is None


def test_info_of_natives_and_fns() -> None:
    m = load(str(SAMPLES / "wmma.ms"))
    stage, fits = info(m, "stage"), info(m, "fits")
    assert stage is not None and fits is not None and stage.signature is not None
    assert [p.kind for p in stage.signature.params] == [
        Kind.BLOCK,
        Kind.BUFFER,
        Kind.LOOP,
        Kind.LOOP,
        Kind.SCOPE,
        Kind.INTRIN,
    ]
    assert stage.signature.params[0].default is REQUIRED
    assert fits.header == "fits(scheduled, target) -> bool"
    assert fits.path is None


@pytest.mark.parametrize("name", ["cores", "registers", "vector_bits", "vector_lanes"])
def test_a_machine_has_at_least_one_core_and_one_register(name: str) -> None:
    with pytest.raises(MsError) as error:
        describe(load("own.ms", f"target t = cpu {{ {name} = 0 }}"), "t")
    assert error.value.diagnostic.code == "MS104"
    assert error.value.diagnostic.message == f"`{name}` is at least 1"
