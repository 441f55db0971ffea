"""Options of the test run, and where its random draws come from."""

from __future__ import annotations

import gc
import secrets
import signal
from collections.abc import Iterator

import hypothesis
import pytest

from tests.choice import Chosen, chosen_by, one_in

FIXED, FRESH = "fixed", "fresh"

# The same draws in every run and on every machine: no seed of the day, no database of past failures.
hypothesis.settings.register_profile(FIXED, derandomize=True, database=None)
hypothesis.settings.register_profile(FRESH, derandomize=False, database=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--campaign", action="store_true", help="run the long random campaigns too")
    parser.addoption("--fresh", action="store_true", help="draw anew instead of the fixed draws; the seed is printed")
    parser.addoption("--fresh-seed", type=int, metavar="SEED", help="repeat the draws of a run with --fresh")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Programs are trees that live long and have no cycles: to search them for garbage after each 700 new objects takes
    # a twelfth of the time of the property tests.
    gc.set_threshold(100_000, 50, 100)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell starts what runs in the background so, and processes that tests interrupt would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.fresh and config.option.fresh_seed is None:
        config.option.fresh_seed = secrets.randbelow(1 << 32)
    seed = config.option.fresh_seed
    hypothesis.settings.load_profile(FIXED if seed is None else FRESH)
    if seed is not None:
        # Hypothesis' own plugin, which is configured after this, seeds every property with it.
        config.option.hypothesis_seed = str(seed)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--campaign"):
        return
    skip = pytest.mark.skip(reason="a long campaign: run with --campaign")
    alike: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("campaign"):
            item.add_marker(skip)
        elif (mark := item.get_closest_marker("one_in")) is not None:
            alike.setdefault((item.nodeid.partition("[")[0], mark.args[0]), []).append(item)
    for (_, n), cases in alike.items():
        left_out = pytest.mark.skip(reason=f"one in {n} of these cases is run; all with --campaign")
        kept = one_in(n, [item.nodeid for item in cases])
        for item in cases:
            if item.nodeid not in kept:
                item.add_marker(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if (seed := config.option.fresh_seed) is not None:
        terminalreporter.write_line(f"draws of seed {seed}: repeat them with --fresh-seed={seed}")


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> Chosen:
    """Whether a test tries the k-th of many similar cases, one of n: see `tests.choice`."""
    return chosen_by(request.node.name, request.config.getoption("--campaign"))


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Signals that end a program do so during the test, here and in processes that it starts, whatever this process
    inherited: `nohup` and shells start programs that ignore some of them."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def fresh_seed(pytestconfig: pytest.Config) -> int | None:
    """The seed of a run with `--fresh`; None in a run with the fixed draws."""
    seed: int | None = pytestconfig.option.fresh_seed
    return seed
