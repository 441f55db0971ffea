"""TVM's serialised formats, read and written without TVM: traces, program graphs, tuning records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mslang.interop.tvm.program_in import programs
    from mslang.interop.tvm.program_out import to_graph
    from mslang.interop.tvm.records import read_database, write_database
    from mslang.interop.tvm.trace_in import import_trace
    from mslang.interop.tvm.trace_json import parse, to_json
    from mslang.interop.tvm.trace_out import export_trace

_HOMES = {
    "export_trace": "trace_out",
    "import_trace": "trace_in",
    "parse": "trace_json",
    "programs": "program_in",
    "read_database": "records",
    "to_graph": "program_out",
    "to_json": "trace_json",
    "write_database": "records",
}


def __getattr__(name: str) -> Any:
    """The public names, loaded on first use."""
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"mslang.interop.tvm.{_HOMES[name]}"), name)


__all__ = [
    "export_trace",
    "import_trace",
    "parse",
    "programs",
    "read_database",
    "to_graph",
    "to_json",
    "write_database",
]
