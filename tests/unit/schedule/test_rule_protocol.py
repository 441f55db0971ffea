"""The protocol of rules: order, alternatives as structure, blocks that are reserved, sets by target."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from mslang.diagnostics import MsError
from mslang.ir.program import Block, Program
from mslang.schedule.decisions import Drawing
from mslang.schedule.interpret import Interpreter
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.nests import block_handle, do, draw
from mslang.schedule.rules.rule import Rule, apply_rules, post_order
from mslang.schedule.rules.sets import SETS, rules_for, set_for, set_named
from mslang.schedule.session import Session
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, CUDA, GENERIC, SM_90, Target

CHAIN = """program chain(A: f32[8, 6], out D: f32[8, 6]) {
    alloc B: f32[8, 6]
    alloc C: f32[8, 6]
    block b[i: 8, j: 6] { B[i, j] = A[i, j] + 1.0 }
    block c[i: 8, j: 6] { C[i, j] = B[i, j] * 2.0 }
    block d[i: 8, j: 6] { D[i, j] = C[i, j] - 3.0 }
}"""


class Halve(msgspec.Struct, frozen=True):
    """Splits the first loop of blocks, or the second, or leaves them alone."""

    seen: list[str]
    labels: tuple[str, ...] = ("none", "i", "j")
    wanted: Callable[[Block], bool] = lambda block: True
    name: str = "halve"

    def applies(self, it: Interpreter, block: Block) -> bool:
        return self.wanted(block)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        return self.labels

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        self.seen.append(f"{block.name} {alternative}")
        if alternative != "none":
            loop = it.session.axis(block_handle(it.session, block.name), alternative)
            size = draw(it.session, "perfect_tile", loop, 2, address=f"halve:{block.name}/{alternative}")
            do(it.session, "split", loop, size)


class Inline(msgspec.Struct, frozen=True):
    """Inlines `c`."""

    name: str = "inline_c"

    def applies(self, it: Interpreter, block: Block) -> bool:
        return block.name == "c"

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        return ("applied",)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        do(it.session, "compute_inline", block_handle(it.session, block.name))


def applied(program: Program, *rules: Rule) -> Session:
    session = Session(program, Drawing(0))
    apply_rules(Interpreter(session), rules)
    return session


def test_consumers_come_before_producers_and_nested_blocks_before_what_holds_them() -> None:
    session = Session(parse_program(CHAIN), Drawing(0))
    assert [session.handles.resolve(h).name for h in post_order(session)] == ["d", "c", "b"]
    do(session, "blockize", session.axis(block_handle(session, "b"), "j"))
    names = [session.handles.resolve(h).name for h in post_order(session)]
    assert names.index("b") < names.index(next(n for n in names if n not in "bcd"))


def test_alternatives_are_structure_and_every_combination_is_a_sketch() -> None:
    space = automatic_space(parse_program(CHAIN), GENERIC, [Halve([], wanted=lambda b: b.name != "c")])
    found = [dict(s.structure) for s in space.sketches()]
    assert len(found) == 9 and {tuple(f) for f in found} == {("halve:d", "halve:b")}
    assert space.sample(3, {"halve:d": "i", "halve:b": "none"}).trace.as_ms().count("split") == 1


def test_one_alternative_is_taken_and_none_passes_the_block_over() -> None:
    seen: list[str] = []
    assert not applied(parse_program(CHAIN), Halve(seen, labels=("none",))).draws.values
    assert seen == ["d none", "c none", "b none"]
    applied(parse_program(CHAIN), Halve(seen, labels=()))
    assert len(seen) == 3


def test_blocks_that_are_gone_are_passed_over_by_the_rules_that_follow() -> None:
    seen: list[str] = []
    applied(parse_program(CHAIN), Inline(), Halve(seen, labels=("none",)))
    assert seen == ["d none", "b none"]


def test_a_block_reserved_for_a_rule_is_passed_over() -> None:
    seen: list[str] = []
    text = CHAIN.replace("{ C[i", '{ attr "schedule_rule" = "mine" C[i').replace(
        "{ D[i", '{ attr "schedule_rule" = "none" D[i'
    )
    applied(parse_program(text), Halve(seen, labels=("none",)))
    assert seen == ["d none", "b none"]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (GENERIC, "cpu"),
        (AVX2, "avx2"),
        (Target("w", features=(*AVX2.features, "avxvnni")), "avxvnni"),
        (AVX512, "avx512"),
        (Target("v", features=(*AVX512.features, "avx512vnni")), "vnni"),
        (SM_90, "cuda_tensor_core"),
        (CUDA, "cuda"),
    ],
    ids=lambda x: x if isinstance(x, str) else x.name,
)
def test_the_set_of_a_target(target: Target, name: str) -> None:
    assert set_for(target) == SETS[name] and rules_for(target) == SETS[name].rules


def test_targets_and_names_without_rules() -> None:
    for ask in (lambda: set_for(Target("n", "npu")), lambda: set_named("avx51", AVX512)):
        with pytest.raises(MsError) as refused:
            ask()
        assert refused.value.diagnostic.code == "MS273"
    assert "avx512" in (refused.value.diagnostic.help or "")
