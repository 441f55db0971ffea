"""Attention in the automatic spaces of GPUs: one sketch computes it in one pass over keys (`OnlineAttention`)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mslang.backend.cuda.nvcc import Nvcc
from mslang.backend.reference import interpret
from mslang.ir.expr import Choice
from mslang.ir.program import Program
from mslang.schedule.replay import replay
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.gpu.attention import Chain, chain_of
from mslang.schedule.rules.gpu.online import KEYS, ROWS
from mslang.schedule.rules.nests import leaf_blocks
from mslang.schedule.rules.sets import rules_for
from mslang.schedule.sketch import Sketch
from mslang.sema.program import parse_program
from mslang.target.description import SM_80, Target
from mslang.tune.verification import DENSE, make_inputs
from tests.cuda.emulator import Emulated, why_not
from tests.cuda.modules import made, run
from tests.cuda.spaces import DRAWS, lowered, programs, valid_rows
from tests.cuda.test_defaults import workload
from tests.cuda.test_online import TEXT, attention
from tests.cuda.test_rules import PLAIN, SM_75
from tests.unit.schedule.test_sketch_text import ROOT, again

HEADS = """program heads(
    Q: f32[2, 4, 9, 8], K: f32[2, 2, 64, 8], V: f32[2, 2, 64, 8], R: f32[2, 9, 32], out O: f32[2, 9, 32]
) {
    alloc s: f32[2, 4, 9, 64]
    alloc m: f32[2, 4, 9]
    alloc w: f32[2, 4, 9, 64]
    alloc t: f32[2, 4, 9]
    alloc x: f32[2, 4, 9, 8]
    alloc y: f32[2, 9, 32]
    block scores[b: 2, h: 4, i: 9, j: 64 | k: 8] { s[b, h, i, j] += Q[b, h, i, k] * K[b, h // 2, j, k] }
    block largest[b: 2, h: 4, i: 9 | j: 64] { m[b, h, i] = max(m[b, h, i], s[b, h, i, j]) }
    block weights[b: 2, h: 4, i: 9, j: 64] { w[b, h, i, j] = exp((s[b, h, i, j] - m[b, h, i]) * 0.5) }
    block mix[b: 2, h: 4, i: 9, d: 8 | j: 64] { x[b, h, i, d] += w[b, h, i, j] * V[b, h // 2, j, d] }
    block total[b: 2, h: 4, i: 9 | j: 64] { t[b, h, i] += w[b, h, i, j] }
    block divide[b: 2, h: 4, i: 9, d: 8] { y[b, i, h * 8 + d] = x[b, h, i, d] / t[b, h, i] }
    block add[b: 2, i: 9, d: 32] { O[b, i, d] = y[b, i, d] + R[b, i, d] }
}"""
"""Two heads share keys and values; their results are neighbours, and are added to something."""
TURNED = """program turned(
    Q: f32[9, 8], K: f32[8, 70], V: f32[70, 33], out O: f32[33, 9], out lse: f32[9], out m: f32[9]
) {
    alloc s: f32[9, 70]
    alloc w: f32[9, 70]
    alloc t: f32[9]
    alloc x: f32[9, 33]
    block scores[i: 9, j: 70 | k: 8] { s[i, j] += Q[i, k] * K[k, j] }
    block largest[i: 9 | j: 70] { m[i] = max(m[i], s[i, j]) }
    block weights[i: 9, j: 70] { w[i, j] = exp(s[i, j] - m[i]) }
    block total[i: 9 | j: 70] { t[i] += w[i, j] }
    block mix[i: 9, d: 33 | j: 70] { x[i, d] += w[i, j] * V[j, d] }
    block divide[i: 9, d: 33] { O[d, i] = x[i, d] / t[i] }
    block logarithm[i: 9] { lse[i] = m[i] + log(t[i]) }
}"""
"""No batch, keys and results transposed, and results of each row."""
SHORT = """program short(Q: f16[2, 9, 16], keys: f16[2, 64, 16], V: f16[2, 64, 16], out O: f16[2, 9, 16]) {
    alloc s: f32[2, 9, 64]
    alloc m: f32[2, 9]
    alloc w: f16[2, 9, 64]
    alloc t: f32[2, 9]
    alloc x: f32[2, 9, 16]
    block scores[b: 2, i: 9, j: 64 | k: 16] { s[b, i, j] += f32(Q[b, i, k]) * f32(keys[b, j, k]) }
    block largest[b: 2, i: 9 | j: 64] { m[b, i] = max(m[b, i], s[b, i, j]) }
    block weights[b: 2, i: 9, j: 64] { w[b, i, j] = f16(exp((s[b, i, j] - m[b, i]) * 0.25)) }
    block total[b: 2, i: 9 | j: 64] { t[b, i] += f32(w[b, i, j]) }
    block mix[b: 2, i: 9, d: 16 | j: 64] { x[b, i, d] += f32(w[b, i, j]) * f32(V[b, j, d]) }
    block divide[b: 2, i: 9, d: 16] { O[b, i, d] = f16(x[b, i, d] / t[b, i]) }
}"""
TEXTS = {"heads": HEADS, "turned": TURNED, "short": SHORT}
TOLERANCE = {"short": 5e-4}
"""Of results that are not of single precision throughout, absolute: weights are rounded relative to another maximum."""
NAMES = ("masked", "library", *TEXTS)


@cache
def program(name: str) -> Program:
    if name in TEXTS:
        return parse_program(TEXTS[name])
    return attention() if name == "masked" else workload("attention.attention")


def one_pass(p: Program) -> Sketch:
    """The sketch that is one kernel."""
    return next(automatic_space(p, SM_80).sketches())


@cache
def sketch_of(name: str) -> Sketch:
    return one_pass(program(name))


def has_alternative(p: Program) -> bool:
    """Whether there are alternatives of the rule."""
    return any(a.startswith("online_attention") for a, _ in one_pass(p).structure)


def names(sketch: Sketch) -> list[str]:
    """The addresses of the decisions."""
    return [d.address for d in sketch.decisions]


def chain(text: str, maximum: str = "largest") -> Chain | None:
    p = parse_program(text)
    return chain_of(p, [b.name for b in leaf_blocks(p)], maximum)


# ---------------------------------------------------------------- the space
def test_one_sketch_is_one_kernel_and_the_others_leave_the_stages_to_other_rules() -> None:
    first, *others = automatic_space(program("masked"), PLAIN).sketches()
    assert first.structure == (("online_attention:row_max", "one_pass"),)
    tiles = {f"online_attention:row_max/{x}" for x in ("rows", "keys", "fetch/K", "fetch/V")}
    unrolled = {f"gpu_unroll:{x}_update/steps" for x in ("scores", "mix_rf")}
    assert {d.address for d in first.decisions} == tiles | unrolled
    assert {dict(s.structure)["online_attention:row_max"] for s in others} == {"apart"}
    assert all("cross_thread_reduction:row_max" in dict(s.structure) for s in others)
    (scheduled,) = programs(iter([first]), PLAIN, 1)
    assert made(scheduled, PLAIN).source.text.count("__global__") == 1


def test_the_defaults_numbers_are_among_those_drawn() -> None:
    sketch = one_pass(attention("score[b, i, j]", keys=1 << 18, features=64))
    decided = {
        a: {"rows": ROWS, "keys": KEYS[0], "K": 4, "V": 4, "steps": 0}[a.rpartition("/")[2]] for a in names(sketch)
    }
    assert sketch.violation(decided) is None


def test_the_sketch_is_read_back_from_its_text_and_replayed() -> None:
    text = Path(ROOT, "stdlib", "workloads", "attention.ms").read_text()
    space = automatic_space(program("library"), SM_80)
    sketch = sketch_of("library")
    assert again(text, sketch, space).decisions == sketch.decisions
    drawn = space.sample(1, dict(sketch.structure))
    assert drawn.sketch.structure == sketch.structure
    assert replay(program("library"), drawn.trace, strict=True).program == drawn.program


@pytest.mark.parametrize("target", [PLAIN, SM_75], ids=["sm_70", "sm_75"])
def test_every_gpu_has_the_sketch(target: Target) -> None:
    assert next(automatic_space(program("short"), target).sketches()).structure == (
        ("online_attention:largest", "one_pass"),
    )


def test_sizes_of_tiles_depend_on_how_many_queries_and_keys_there_are() -> None:
    def choices(keys: int, queries: int) -> dict[str, Sequence[object]]:
        text = TEXT.format(scaled="score[b, i, j]", keys=keys, features=12).replace("L = 9", f"L = {queries}")
        found = one_pass(parse_program(text)).decisions
        domains = {d.address.rpartition("/")[2]: d.domain for d in found if d.address.startswith("online_attention")}
        return {n: [int(v) for v in d.values] for n, d in domains.items() if isinstance(d, Choice)}

    assert choices(1024, 1024) | {"K": [], "V": []} == {"rows": [4, 8, 16, 32], "keys": [32, 64, 128], "K": [], "V": []}
    assert choices(192, 9)["rows"] == [4, 8, 16] and choices(192, 9)["keys"] == [32, 64]  # Those that divide 192.
    assert choices(100, 9)["keys"] == [32, 64]  # None divides it.
    assert choices(20, 1).keys() == {"K", "V"}


# ---------------------------------------------------------------- which stages are attention
def test_the_stages_of_attention_are_found_by_what_they_read() -> None:
    found = chain(HEADS)
    assert found is not None
    assert (found.before, found.exponentials, found.sums) == (("scores",), ("weights",), ("mix", "total"))
    assert found.after == ("divide", "add")
    assert found.products == {"scores": ("i", "j"), "mix": ("i", "d")}


def test_what_comes_before_and_after_attention_is_none_of_it() -> None:
    text = """program p(X: f32[32, 16], Wq: f32[16, 32], Wo: f32[32, 24], K: f32[64, 32], V: f32[64, 32],
        out O: f32[32, 24]) {
        alloc q: f32[32, 32]
        alloc u: f32[64, 32]
        alloc s: f32[32, 64]
        alloc m: f32[32]
        alloc w: f32[32, 64]
        alloc t: f32[32]
        alloc x: f32[32, 32]
        alloc y: f32[32, 32]
        alloc z: f32[32, 24]
        block project[i: 32, d: 32 | k: 16] { q[i, d] += X[i, k] * Wq[k, d] }
        block scores[i: 32, j: 64 | k: 32] { s[i, j] += q[i, k] * K[j, k] }
        block values[j: 64, d: 32] { u[j, d] = V[j, d] * 2.0 }
        block largest[i: 32 | j: 64] { m[i] = max(m[i], s[i, j]) }
        block weights[i: 32, j: 64] { w[i, j] = exp((s[i, j] - m[i]) * 0.5) }
        block total[i: 32 | j: 64] { t[i] += w[i, j] }
        block mix[i: 32, d: 32 | j: 64] { x[i, d] += w[i, j] * u[j, d] }
        block divide[i: 32, d: 32] { y[i, d] = x[i, d] / t[i] }
        block back[i: 32, e: 24 | d: 32] { z[i, e] += y[i, d] * Wo[d, e] }
        block relu[i: 32, e: 24] { O[i, e] = max(z[i, e], 0.0) }
    }"""
    found = chain(text)
    assert found is not None and found.stages == ("scores", "largest", "weights", "total", "mix", "divide")
    sketch = one_pass(parse_program(text))
    assert dict(sketch.structure)["online_attention:largest"] == "one_pass"
    assert {"gpu_tiling:project", "gpu_tiling:back"} <= {a for a, _ in sketch.structure}
    (scheduled,) = programs(iter([sketch]), SM_80, 1)
    assert made(scheduled, SM_80).source.text.count("__global__") == 3


def test_weights_that_are_divided_first_are_no_attention_in_one_pass() -> None:
    text = HEADS.replace("w[b, h, i, j] * V", "p[b, h, i, j] * V").replace(
        "alloc y", "alloc p: f32[2, 4, 9, 64]\n    alloc y"
    )
    block = "block divided[b: 2, h: 4, i: 9, j: 64] { p[b, h, i, j] = w[b, h, i, j] / t[b, h, i] }\n    block mix"
    lines = text.replace("    block mix", f"    {block}").splitlines()
    total = next(x for x in lines if "block total" in x)
    lines.remove(total)
    lines.insert(next(k for k, x in enumerate(lines) if "block divided" in x), total)
    p = parse_program("\n".join(lines))
    assert chain_of(p, [b.name for b in leaf_blocks(p)], "largest") is None
    assert not has_alternative(p)


def test_stages_that_a_rule_of_a_users_own_schedules_are_left_alone() -> None:
    text = SHORT.replace("s[b, i, j] += f32", 'attr "schedule_rule" = "mine"  s[b, i, j] += f32')
    p = parse_program(text)
    rules = [r for r in rules_for(SM_80) if r.name != "custom"]
    first = next(automatic_space(p, SM_80, rules).sketches())
    assert not any(a.startswith("online_attention") for a, _ in first.structure)


def test_softmax_has_no_such_alternative() -> None:
    assert not has_alternative(workload("softmax.softmax"))


@pytest.mark.one_in(2)
# ---------------------------------------------------------------- candidates
@pytest.mark.parametrize("name", NAMES)
def test_what_passes_the_constraints_on_arrays_can_be_lowered(name: str) -> None:
    assert lowered(sketch_of(name), SM_80, 6) == {"": 6}


@pytest.mark.parametrize("features", [64, 128])
def test_most_candidates_of_long_sequences_keep_the_limits(features: int) -> None:
    sketch = one_pass(attention("score[b, i, j]", keys=16384, features=features))
    rows = valid_rows(sketch, SM_80, DRAWS)
    assert len(rows) > DRAWS / 2
    for row in rows[:: len(rows) // 3]:
        text = made(sketch.instantiate(row), SM_80).source.text
        sizes = [int(n) for n in re.findall(r"__align__\(16\) float \w+\[(\d+)\];", text)]
        assert max(sizes, default=0) <= 128 * (features + 1)  # A tile of keys; more is in dynamic shared memory.


def test_a_candidate_computes_attention_in_the_interpreter() -> None:
    for name in NAMES:
        arrays = dict(make_inputs(program(name), DENSE, seed=5))
        (scheduled,) = programs(iter([sketch_of(name)]), SM_80, 1)
        found = interpret.run(scheduled, arrays, check=False)
        same(name, found, arrays)


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_emitted_source_computes_attention() -> None:
    drawn = [(n, p) for n in NAMES for p in drawn_of(n)]
    kernels = [made(p, SM_80) for _, p in drawn]
    with Emulated(*(k.source.text for k in kernels)) as file:
        for number, ((name, _), kernel) in enumerate(zip(drawn, kernels, strict=True)):
            arrays = dict(make_inputs(program(name), DENSE, seed=5))
            found = run(kernel, arrays, file, number)
            assert found.faults == (), name
            same(name, found.results, arrays)


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_compiles_it() -> None:
    path = shutil.which("nvcc")
    assert path is not None
    sketch = one_pass(attention(keys=4096, features=64))
    (scheduled,) = programs(iter([sketch]), SM_80, 1)
    compiled = Nvcc(path)(made(scheduled, SM_80).source.text, "sm_80", "cubin")
    assert compiled.log.count("Compiling entry function") == 1
    assert " 0 bytes stack frame, 0 bytes spill stores" in compiled.log


def drawn_of(name: str) -> Iterator[Program]:
    """Two candidates: of those drawn, the first and one with other sizes of tiles."""
    sketch = sketch_of(name)
    first, *others = valid_rows(sketch, SM_80, 40)
    address = next(d.address for d in sketch.decisions if d.address.endswith("/rows"))
    for row in (first, next(r for r in others if r[address] != first[address])):
        yield sketch.instantiate(row)


def same(name: str, found: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray]) -> None:
    """The results of a candidate are those of the program."""
    for k, wanted in interpret.run(program(name), arrays, check=False).items():
        np.testing.assert_allclose(found[k], wanted, rtol=1e-4, atol=TOLERANCE.get(name, 1e-5), err_msg=name)
