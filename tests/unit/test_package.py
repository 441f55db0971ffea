"""What the package itself offers: the functions of `import mslang as ms`, errors that travel between processes."""

import pickle

import pytest

import mslang as ms
import mslang.schedule.space
import mslang.tune.tune
from mslang.diagnostics import MsError, RequireFailed, problem

TEXT = """program p(A: f32[8], out B: f32[8]) { block b[i: 8] { B[i] = A[i] } }
schedule s for p { let a, c = b.i.split([_, 2]) }"""


def test_functions_are_called_though_packages_have_their_names():
    def text() -> None: ...

    text.__doc__ = TEXT
    assert ms.schedule(text).spaces == ("s",)
    with pytest.raises(TypeError, match="space"):
        ms.tune()  # type: ignore[call-arg]
    assert mslang.tune.tune.__name__ == "mslang.tune.tune"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "error",
    [
        MsError(problem("MS101", "one", why="because"), problem("MS102", "two")),
        RequireFailed(problem("MS260", "no")),
        mslang.schedule.space.NoCandidate(problem("MS261", "none"), {"why": 3}),  # type: ignore[attr-defined]
    ],
)
def test_errors_keep_their_diagnostics_between_processes(error: MsError):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.diagnostics == error.diagnostics
    assert str(again) == str(error) and vars(again) == vars(error)
