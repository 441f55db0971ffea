"""`default`: a good schedule that needs neither records nor a search."""

from __future__ import annotations

import msgspec

from mslang.apply.passes import Missed, Served
from mslang.backend.backend import BackEnd
from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.target.description import Target


class ByDefault(msgspec.Struct, frozen=True):
    """The pass `default`: on a CPU a fixed choice of tiles and loops, elsewhere the default of the back end."""

    backend: BackEnd[object]
    name: str = "default"

    def serve(self, program: Program, target: Target) -> Served | Missed:
        """The default schedule."""
        own = self.backend.default
        try:
            candidate = (own or default_schedule)(program, target)
        except MsError as error:
            return Missed(error.diagnostic.message)
        steps = len(candidate.trace.instructions)
        if not steps:
            return Missed("it leaves this program as it is")
        how = f"the default of the back end {self.backend.name}" if own else f"fixed choices for {target.name}"
        return Served(candidate.program, f"{how}, {steps} steps", candidate.trace)
