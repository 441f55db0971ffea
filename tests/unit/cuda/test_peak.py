"""The calculated peak of GPUs, compared with the figures of NVIDIA's data sheets, and what is made of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mslang.backend.backend import BackEnd
from mslang.backend.cuda import device as devices
from mslang.backend.cuda import peak as peaks
from mslang.backend.cuda.backend import CUDA as BACK_END
from mslang.backend.cuda.peak import CLOCK_MARGIN, Card, card_here, card_of, described
from mslang.ir.work import operations
from mslang.runtime.timing import Timing
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, CUDA, SM_80, SM_90, Target
from mslang.tune.roofline import MARGIN, Roofline
from mslang.tune.scale import scale_of
from tests.unit.cuda.test_running import FakeDriver, with_driver

GEMM = """program mm(A: DT[512, 512], B: DT[512, 512], out C: SUM[512, 512]) {
    block c[i: 512, j: 512 | k: 512] { C[i, j] += LEFT * RIGHT }
}"""


def gemm(dtype: str) -> Any:
    """A product of matrices; narrow operands have sums in f32."""
    whole = dtype in ("f32", "f64")
    left, right = ("A[i, k]", "B[k, j]") if whole else ("f32(A[i, k])", "f32(B[k, j])")
    text = GEMM.replace("DT", dtype).replace("SUM", dtype if whole else "f32")
    return parse_program(text.replace("LEFT", left).replace("RIGHT", right))


class Reports(SimpleNamespace):
    """A device that reports attributes."""

    sm: int
    reported: dict[str, int]

    def attribute(self, name: str) -> int | None:
        return self.reported.get(name)


def reporting(sm: int, sms: int, clock: int, memory: int = 0, bits: int = 0) -> Reports:
    """Clocks in MHz, the bus in bits."""
    found = {"MULTIPROCESSOR_COUNT": sms, "CLOCK_RATE": 1000 * clock}
    found |= {"MEMORY_CLOCK_RATE": 1000 * memory, "GLOBAL_MEMORY_BUS_WIDTH": bits}
    return Reports(sm=sm, reported=found, name="a card", l2=0)


V100 = reporting(70, 80, 1530, 877, 4096)
T4 = reporting(75, 40, 1590, 5001, 256)
A100 = reporting(80, 108, 1410, 1215, 5120)
A100_80 = reporting(80, 108, 1410, 1593, 5120)
A10 = reporting(86, 72, 1695, 6251, 384)
RTX_6000_ADA = reporting(89, 142, 2505, 10001, 384)
H100 = reporting(90, 132, 1980, 2619, 5120)
H100_PCIE = reporting(90, 114, 1755, 1593, 5120)


@pytest.mark.parametrize(
    ("gpu", "dtype", "tera"),
    [
        (V100, "f32", 15.7),
        (V100, "f64", 7.8),
        (V100, "f16", 125),
        (T4, "f32", 8.1),
        (T4, "f16", 65),
        (T4, "i8", 130),
        (A100, "f32", 19.5),
        (A100, "f64", 19.5),
        (A100, "f16", 312),
        (A100, "bf16", 312),
        (A100, "i8", 624),
        (A10, "f32", 31.2),
        (A10, "f16", 125),
        (A10, "i8", 250),
        (RTX_6000_ADA, "f32", 91.1),
        (RTX_6000_ADA, "f16", 364),
        (H100, "f32", 67),
        (H100, "f64", 67),
        (H100, "f16", 989),
        (H100, "bf16", 989),
        (H100, "i8", 1979),
        (H100_PCIE, "f32", 51.2),
        (H100_PCIE, "f16", 756),
    ],
)
def test_peaks_are_those_of_data_sheets(gpu: Any, dtype: str, tera: float) -> None:
    assert card_here(gpu).peak(dtype) == pytest.approx(tera * 1e12, rel=0.01)


@pytest.mark.parametrize(("gpu", "giga"), [(A100, 1555), (A100_80, 2039), (H100, 3350), (T4, 320), (V100, 900)])
def test_the_bandwidth_is_that_of_data_sheets(gpu: Any, giga: float) -> None:
    assert card_here(gpu).bandwidth == pytest.approx(giga * 1e9, rel=0.01)


@pytest.mark.parametrize("missing", ["MULTIPROCESSOR_COUNT", "CLOCK_RATE"])
def test_what_the_driver_does_not_report_is_not_known(missing: str) -> None:
    gpu = reporting(80, 108, 1410)
    del gpu.reported[missing]
    card = card_here(gpu)
    assert (card.peak("f32"), card.ceiling("f32"), card.bandwidth) == (None, None, None)


def test_other_architectures_and_types_are_not_known() -> None:
    assert Card(61, 20, 1.7e9).peak("f32") is None and Card(61, 20, 1.7e9).ceiling("f32") is None
    assert Card(70, 80, 1.53e9).peak("bf16") is None and Card(90, 132, 1.98e9).peak("i64") is None


def test_the_ceiling_of_f32_is_that_of_tf32() -> None:
    """A100: 156 TFLOP/s. A program whose tensor cores round f32 to tf32 is not refused."""
    card = card_here(A100)
    assert card.ceiling("f32") == pytest.approx(CLOCK_MARGIN * 156e12, rel=0.01)
    assert card.ceiling("f64") == pytest.approx(CLOCK_MARGIN * 19.5e12, rel=0.01)
    assert Card(75, 40, 1.59e9).ceiling("f32") == pytest.approx(CLOCK_MARGIN * 8.1e12, rel=0.01)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "unavailable", lambda: "none here")


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_target_says_what_it_is() -> None:
    assert BACK_END.peak is not None and BACK_END.bandwidth is not None
    assert BACK_END.peak(SM_80, "f32", False) == pytest.approx(19.5e12, rel=0.01)
    assert BACK_END.peak(SM_90, "f16", True) == pytest.approx(989e12, rel=0.01)
    assert (BACK_END.bandwidth(SM_80), BACK_END.bandwidth(SM_90)) == (1.555e12, 3.35e12)
    assert described(CUDA) == Card(80, None, None) and BACK_END.peak(CUDA, "f32", False) is None
    assert BACK_END.peak(Target("mine", "cuda", extra=(("clock", "fast"),)), "f32", False) is None


def test_the_gpu_of_this_machine_counts_not_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "unavailable", lambda: None)
    monkeypatch.setattr(peaks, "device", lambda: H100)
    assert card_of(SM_80) == Card(90, 132, 1.98e9, pytest.approx(3.352e12, rel=1e-3))
    assert BACK_END.ceiling is not None
    assert BACK_END.ceiling(SM_80, "f32", False) == pytest.approx(CLOCK_MARGIN * 494.7e12, rel=0.01)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(("dtype", "tera"), [("f32", 19.5), ("f64", 19.5), ("f16", 312), ("bf16", 312)])
def test_a_time_on_a_gpu_has_a_share_of_peak(dtype: str, tera: float) -> None:
    scale = scale_of(gemm(dtype), SM_80)
    assert scale.peak == pytest.approx(tera * 1e12, rel=0.01)
    assert scale.core is None and (scale.dtype, scale.basis) == (dtype, "at the GPU's boost clock")
    half = Timing((2 * 2 * 512**3 / (tera * 1e12),), 1, cold=True)
    assert scale.share(half) == pytest.approx(0.5, rel=0.01) and scale.rate(half).endswith("50 % of peak")


@pytest.mark.usefixtures("no_gpu")
def test_an_impossible_time_on_a_gpu_is_refused_and_a_fast_one_is_not() -> None:
    program = gemm("f64")
    most = BACK_END.ceiling
    assert most is not None
    roofline = Roofline(program, lambda again: most(SM_80, "f64", again))
    work = operations(program)
    assert work == 2 * 512**3
    # At the peak, by a clock that is a fourth faster, and with an error of the time besides.
    for faster in (1.0, 1.24, 1.5):
        assert roofline.broken_by(work / (faster * 19.49e12)) is None
    assert "more than this machine's peak allows" in (
        roofline.broken_by(work / (1.01 * MARGIN * CLOCK_MARGIN * 19.5e12)) or ""
    )


def test_where_the_peak_is_not_known_nothing_is_refused() -> None:
    assert Roofline(gemm("f32"), lambda again: None).broken_by(1e-15) is None


def test_only_back_ends_that_say_so_have_a_ceiling_of_their_own() -> None:
    """Of a processor the measured peak is both."""
    from mslang.backend.registry import serving

    back_end: BackEnd[Any] = serving(AVX2)
    assert back_end.ceiling is None and back_end.peak is not None and back_end.bandwidth is not None


def test_attributes_are_asked_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    with_driver(monkeypatch, driver)
    driver.device_attribute = SimpleNamespace(L2_CACHE_SIZE=0, CLOCK_RATE=13)
    here = devices.device()
    assert here.attribute("CLOCK_RATE") == 40 << 20 and here.attribute("MEMORY_CLOCK_RATE") is None

    def refused(attribute: int) -> int:
        raise driver.Error("invalid argument")

    monkeypatch.setattr(driver.Device(0), "get_attribute", refused)
    assert here.attribute("CLOCK_RATE") is None
