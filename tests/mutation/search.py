"""Look for one planted fault: `python -m tests.mutation.search 17` plants the fault number 17 and tries to catch it.

The fault is planted in this process only: a function is replaced before anything else imports it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from tests.mutation.below_primitives import BELOW_PRIMITIVES
from tests.mutation.in_instances import IN_INSTANCES
from tests.mutation.in_primitives import IN_PRIMITIVES

FAULTS = (*IN_PRIMITIVES, *IN_INSTANCES, *BELOW_PRIMITIVES)

ROOT = Path(__file__).parents[2]
SEED = 1
CAUGHT = 10
"""The exit status where the fault showed: no other end of the process is taken for that."""
PAIRS = 500
"""So many pairs are tried where a fault does not show in the pair that is noted for it."""


def first_wrong(only: Sequence[str], pairs: Sequence[int], generator: str = "stages") -> str | None:
    """What goes wrong in the first pair of the campaign that does; each number is printed before.

    Half of the tries are of the primitives `only`, if there are any.
    """
    from tests.property.campaign import GENERATORS, campaign

    often = sum(GENERATORS[generator].weights.values()) // max(1, len(only))
    weights = dict.fromkeys(only, often)
    for number in pairs:
        print(number, flush=True)
        for fault in campaign(SEED, (number,), weights=weights, generator=generator).faults:
            return f"{fault.what}\n{fault.program}"
    return None


def main() -> int:
    """Plant a fault and look for it; the exit status is `CAUGHT` if it shows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("number", type=int)
    parser.add_argument("--first", type=int, help="the pair to begin with, in place of the one that is noted")
    options = parser.parse_args()
    fault = FAULTS[options.number]
    fault.plant()
    if fault.caught_by is not None:
        import pytest

        tests = str(ROOT / fault.caught_by)
        failed = (
            pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", tests])
            == pytest.ExitCode.TESTS_FAILED
        )
        return CAUGHT if failed else 0
    pairs = range(PAIRS) if options.first is None else range(options.first, options.first + PAIRS)
    noted = (fault.pair,) if options.first is None else ()
    shown = first_wrong(fault.only, list(chain(noted, pairs)), fault.generator)
    print(shown or "nothing is wrong", file=sys.stderr)
    return CAUGHT if shown else 0


if __name__ == "__main__":
    sys.exit(main())
