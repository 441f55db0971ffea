"""Pins are checked without running anything: an address that no decision has is a diagnostic with the nearest."""

import pytest

from mslang.ide.findings import findings
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load

TEXT = """
program p(A: f32[64, 64], out B: f32[64, 64]) { block b[i: 64, j: 64] { B[i, j] = A[i, j] } }
fn cut(l: loop) {
    let size ~ choose([4, 8])
    let l0, l1 = l.split([_, size])
    return l0, l1
}
schedule s for p {
    let i0, i1 = cut(b.i)
    fork how {
        case plain {}
        case fast { let many as "x/y" ~ choose([1, 2]) }
    }
}
schedule dynamic for p { for l in b.loops() { let f ~ choose([1, 2]) } }
"""


def told(more: str) -> list[tuple[str, str | None]]:
    return [(d.code, d.help) for d in findings(load("t.ms", TEXT + more))]


@pytest.mark.parametrize(
    "pins", ['"i0/size" = 8', "how = plain", 'how = fast, "x/y" = 2, "i0/size" = 4'], ids=["fn", "fork", "as"]
)
def test_addresses_that_there_are(pins):
    assert told(f"schedule t for p = s with {{ {pins} }}\n") == []
    assert told(f"space u for p = s with {{ {pins} }}\n") == []


@pytest.mark.parametrize(
    ("statement", "pin"),
    [
        ("let *some, last = cut(b.i)", '"last/size" = 8'),
        ("let a, c = stated(b.i)", "mine = 8"),
        ("let all = [cut(l) for l in b.loops()]", '"all[i]/size" = 8'),
        ("let f = cut\nlet a, c = f(b.i)", '"a/size" = 8'),
    ],
)
def test_addresses_in_helpers_are_those_of_running(statement, pin):
    helper = 'fn stated(l: loop) { let s as "mine" ~ choose([4, 8]) let a, c = l.split([_, s]) return a, c }\n'
    text = f"{helper}schedule r for p {{ {statement} }}\nschedule t for p = r with {{ {pin} }}\n"
    assert told(text) == []
    address, value = pin.split(" = ")
    assert space_of(load("t.ms", TEXT + text), "t").sample(0).decisions[address.strip('"')] == int(value)


@pytest.mark.parametrize(
    ("pins", "near"), [('"i0/sice" = 8', "did you mean `i0/size`?"), ("hov = plain", "did you mean `how`?")]
)
def test_addresses_that_there_are_not(pins, near):
    assert told(f"schedule t for p = s with {{ {pins} }}\n") == [("MS251", near)]
    assert told(f"space u for p = s with {{ {pins} }}\n") == [("MS251", near)]


def test_what_only_running_tells_is_not_guessed():
    assert told('schedule t for p = dynamic with { "f[i]" = 2, nothing = 3 }\n') == []


def test_an_item_named_like_an_operation():
    assert told("fn unroll(l: loop) { l.parallel() }\n") == [("MS216", "call it something else")]
