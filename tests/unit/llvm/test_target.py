"""Targets: what is found out about this machine, and code for others."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from mslang.diagnostics import TargetError
from mslang.target.description import AVX2, AVX512, GENERIC, KIB, MIB, TARGETS, Target
from mslang.target.detect import cache_sizes, host
from mslang.target.features import vector_bits
from mslang.target.limits import MachineLimits, measured_limits, raise_peak
from mslang.target.processors import model_of
from tests.unit.llvm.support import executable
from tests.unit.lower.programs import packed_gemm


def test_the_host_is_described():
    found = host()
    assert found.kind == "cpu"
    assert found.cores >= 1
    assert found.vector_bits in (128, 256, 512)
    assert found.l1 < found.l2
    assert found.fields["vector_lanes"] == found.vector_bits // 32


def test_caches_are_read_from_the_system(tmp_path: Path):
    for number, (level, kind, size) in enumerate([(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2M")]):
        entry = tmp_path / f"index{number}"
        entry.mkdir()
        (entry / "level").write_text(f"{level}\n")
        (entry / "type").write_text(f"{kind}\n")
        (entry / "size").write_text(f"{size}\n")
    (tmp_path / "index9").mkdir()
    assert cache_sizes(tmp_path) == {1: 48 * KIB, 2: 2 * MIB}
    assert cache_sizes(tmp_path / "absent") == {}


def test_vector_registers_follow_from_features():
    assert [vector_bits(t.features) for t in (GENERIC, AVX2, AVX512)] == [128, 256, 512]
    assert all(vector_bits(t.features) == t.vector_bits for t in TARGETS.values() if t.kind == "cpu")


@pytest.mark.parametrize("target", [GENERIC, AVX2, AVX512])
def test_code_is_generated_for_other_processors(target: Target):
    made = executable(packed_gemm(13, 70, 5), target)
    assembly = made.assembly
    assert made.object
    assert ("zmm" in assembly) == (target is AVX512)
    assert ("ymm" in assembly) == (target is not GENERIC)


def test_an_unknown_machine_is_refused():
    with pytest.raises(TargetError) as caught:
        executable(packed_gemm(6, 64, 2), Target("none", triple="abacus-unknown-none"))
    assert caught.value.diagnostic.code == "MS402"


@pytest.mark.parametrize(
    ("dtype", "features", "times"),
    [
        ("i8", ("avx512vnni",), 4),
        ("i8", ("avx512vnni", "amx-int8"), 32),
        ("i8", (), 2),
        ("bf16", ("avx512bf16",), 2),
        ("bf16", ("avx512bf16", "amx-bf16"), 16),
        ("f16", (), 1),
    ],
)
def test_the_peak_of_a_narrow_type_follows_from_its_instructions(
    tmp_path: Path, dtype: str, features: tuple[str, ...], times: int
):
    target = msgspec.structs.replace(host(), features=features)
    whole, narrow = (measured_limits(target, d, folder=tmp_path) for d in ("f32", dtype))
    assert narrow.peak == times * whole.peak and narrow.peak_core == times * whole.peak_core
    assert narrow.bandwidth == whole.bandwidth


def test_measured_limits_are_kept(tmp_path: Path):
    first = measured_limits(folder=tmp_path)
    assert 0 < first.peak_core <= first.peak
    assert first.bandwidth > 0
    assert measured_limits(folder=tmp_path) == first
    (tmp_path / "limits.json").write_text("not json")
    assert isinstance(measured_limits(folder=tmp_path), MachineLimits)


def test_the_peak_is_a_running_maximum(tmp_path: Path):
    first = measured_limits(folder=tmp_path)
    raise_peak(0.5 * first.peak_core, folder=tmp_path)
    assert measured_limits(folder=tmp_path) == first
    raise_peak(2.0 * first.peak_core, folder=tmp_path)
    raised = measured_limits(folder=tmp_path)
    assert raised.peak_core == 2.0 * first.peak_core and raised.scaling == pytest.approx(first.scaling)
    again = measured_limits(folder=tmp_path, refresh=True)
    assert again.peak_core >= raised.peak_core
    assert measured_limits(dtype="f64", folder=tmp_path).peak_core < raised.peak_core


@pytest.mark.parametrize(
    "change",
    [
        {"measured": "2020-01-01T00:00:00+00:00"},
        {"measured": "2999-01-01T00:00:00+00:00"},
        {"measured": "yesterday"},
        {"peak_core": 0.0, "peak": 1e-3},
        {"peak": 1e-3},
    ],
)
def test_limits_that_are_old_or_impossible_are_measured_again(tmp_path: Path, change: dict[str, object]):
    measured_limits(folder=tmp_path)
    path = tmp_path / "limits.json"
    known = json.loads(path.read_text())
    for limits in known.values():
        limits |= {"bandwidth": 1.0} | change
    path.write_text(json.dumps(known))
    assert measured_limits(folder=tmp_path).bandwidth > 1.0


def test_limits_without_a_place_to_keep_them(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert measured_limits(folder=blocked / "below").peak > 0


SERVER = ("avx2", "fma", "avx512f", "avx512bw", "avx512vnni", "avx512vbmi2")


@pytest.mark.parametrize(
    ("features", "detected", "model"),
    [
        ((*SERVER, "avx512bf16", "avx512fp16", "amx-tile"), "rocketlake", "sapphirerapids"),
        ((*SERVER, "avx512bf16", "avx512fp16", "avxvnni"), "icelake-client", "sapphirerapids"),
        (SERVER, "rocketlake", "icelake-server"),
        (("avx2", "fma", "avxvnni"), "sapphirerapids", "alderlake"),  # the machine hides AVX-512
        ((*SERVER, "avx512bf16", "sse4a", "vaes"), "k8-sse3", "znver4"),
        (("sse2",), "nehalem", "nehalem"),
        (("neon",), "neoverse-v1", "neoverse-v1"),
    ],
)
def test_the_model_follows_from_features(features, detected, model):
    assert model_of(features, detected) == model


def test_code_uses_no_feature_that_only_the_model_has():
    hidden = msgspec.structs.replace(AVX2, cpu="sapphirerapids")
    code = executable(packed_gemm(64, 64, 64), hidden).assembly
    assert "%ymm" in code and "%zmm" not in code and "%k1" not in code and "%xmm16" not in code
    # Without a list of features the model's count.
    bare = msgspec.structs.replace(AVX512, features=())
    assert "%zmm" in executable(packed_gemm(64, 64, 64), bare).assembly
