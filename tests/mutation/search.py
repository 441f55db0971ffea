"""Look for one planted fault: `python -m tests.mutation.search 17` plants the fault number 17 and tries to catch it.

The fault is planted in this process only: in the text of a module while that is imported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import chain
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.mutation.below_primitives import BELOW_PRIMITIVES
from tests.mutation.in_instances import IN_INSTANCES
from tests.mutation.in_primitives import IN_PRIMITIVES
from tests.mutation.planted import Planted

FAULTS = (*IN_PRIMITIVES, *IN_INSTANCES, *BELOW_PRIMITIVES)

ROOT = Path(__file__).parents[2]
SEED = 1
CAUGHT = 10
"""The exit status where the fault showed: no other end of the process is taken for that."""
PAIRS = 500
"""So many pairs are tried where a fault does not show in the pair that is noted for it."""


class Planting(MetaPathFinder):
    """Finds the module with the fault: as it is, but for the fault."""

    def __init__(self, fault: Planted) -> None:
        self.fault, self.file = fault, ROOT / fault.path
        self.module = ".".join(Path(fault.path).with_suffix("").parts)
        assert self.module not in sys.modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        return spec_from_file_location(fullname, self.file, loader=_Planted(fullname, str(self.file), self.fault))


class _Planted(SourceFileLoader):
    def __init__(self, fullname: str, path: str, fault: Planted) -> None:
        super().__init__(fullname, path)
        self.fault = fault

    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text()
        return self.source_to_code(text.replace(self.fault.right, self.fault.wrong).encode(), self.path)


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
    sys.meta_path.insert(0, Planting(fault))
    if fault.caught_by is not None:
        tests = str(ROOT / fault.caught_by)
        failed = (
            pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", tests]) == pytest.ExitCode.TESTS_FAILED
        )
        return CAUGHT if failed else 0
    pairs = range(PAIRS) if options.first is None else range(options.first, options.first + PAIRS)
    noted = (fault.pair,) if options.first is None else ()
    shown = first_wrong(fault.only, list(chain(noted, pairs)), fault.generator)
    print(shown or "nothing is wrong", file=sys.stderr)
    return CAUGHT if shown else 0


if __name__ == "__main__":
    sys.exit(main())
