"""Profiles: scopes nest, repeat and add up; nothing is kept where no profile is open; an error closes its scopes."""

import pytest

import mslang as ms
from mslang import profiling


def shape(p: profiling.Profile) -> list[tuple[str, int, bool]]:
    return sorted((name.strip(), count, aside) for name, _, count, aside in p.rows())


def test_scopes_nest_and_repeat() -> None:
    with ms.profile() as p:
        for _ in range(3):
            with profiling.scope("outer"):
                with p.scope("mine"):
                    pass
    outer = p.root.children["outer"]
    assert outer.count == 3 and outer.children["mine"].count == 3
    assert outer.seconds >= outer.children["mine"].seconds >= 0
    assert shape(p) == [
        ("mine", 3, False),
        ("other", 1, False),
        ("other", 3, False),
        ("outer", 3, False),
        ("total", 1, False),
    ]


def test_parts_add_up_to_the_whole() -> None:
    with ms.profile() as p:
        with profiling.scope("a"):
            pass
        profiling.add("compile", 1e6)
    p.rows()
    assert p.root.own + p.root.children["a"].seconds == pytest.approx(p.root.seconds)


def test_time_of_workers_stands_beside_the_total() -> None:
    with ms.profile() as p:
        profiling.add("compile", 2.0)
        profiling.add("compile", 3.0)
    assert p.root.children["compile"] == profiling.Node("compile", 5.0, 2, aside=True)
    assert "compile" in str(p) and "workers" in str(p)


def test_profiles_inside_each_other_both_see_what_runs() -> None:
    with ms.profile() as whole:
        with whole.scope("first"):
            with ms.profile() as part:
                with profiling.scope("draw"):
                    pass
        with profiling.scope("draw"):
            pass
    assert part.root.children["draw"].count == 1
    assert whole.root.children["draw"].count == 1
    assert whole.root.children["first"].children["draw"].count == 1


def test_nothing_is_kept_where_no_profile_is_open() -> None:
    with ms.profile() as p:
        pass
    with profiling.scope("late"):
        profiling.add("compile", 1.0)
    assert p.root.children == {}


def test_an_error_closes_its_scopes() -> None:
    with ms.profile() as p:
        with pytest.raises(ValueError, match="no"), profiling.scope("fails"):
            raise ValueError("no")
        with profiling.scope("after"):
            pass
    assert set(p.root.children) == {"fails", "after"}
