"""Records as JSON files of a folder: `records/<workload>/<number>.json`, the programs beside them, runs above them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from mslang.diagnostics import Diagnostic, Severity
from mslang.ir.equal import workload_hash
from mslang.ir.program import Program
from mslang.tune.record import Record, Run, Workload
from mslang.tune.stores import fastest


class FolderStore:
    """A store in a folder, which is made when the first record is kept."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def add_workload(self, workload: Workload) -> None:
        """Write a program's text."""
        place = self._folder / workload.hash
        place.mkdir(parents=True, exist_ok=True)
        (place / f"program-{workload.source}.json").write_bytes(msgspec.json.encode(workload))

    def add(self, record: Record) -> Record:
        """Write a record under the next number."""
        number = 1 + max((int(p.stem) for p in self._files()), default=0)
        kept = msgspec.structs.replace(record, id=number)
        place = self._folder / record.workload
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.json").write_bytes(msgspec.json.encode(kept))
        return kept

    def records(self, program: Program | str | None = None) -> Iterator[Record | Diagnostic]:
        """The records of a program, oldest first; a file that is none comes as a warning."""
        hash = workload_hash(program) if isinstance(program, Program) else program
        for path in sorted(self._files(hash), key=lambda p: int(p.stem)):
            try:
                yield msgspec.json.decode(path.read_bytes(), type=Record)
            except msgspec.MsgspecError as error:
                yield Diagnostic("MS605", f"{path} is damaged", severity=Severity.WARNING, why=str(error))

    def _files(self, hash: str | None = None) -> Iterator[Path]:
        return (p for p in self._folder.glob(f"{hash or '*'}/*.json") if p.stem.isdecimal())

    def top(
        self,
        program: Program | str | None = None,
        n: int = 10,
        *,
        target: str | None = None,
        machine: str | None = None,
        compiler: str | None = None,
    ) -> list[Record]:
        """The fastest."""
        records = (r for r in self.records(program) if isinstance(r, Record))
        return fastest(records, n, target=target, machine=machine, compiler=compiler)

    def texts(self, workload: str | None = None) -> list[Workload]:
        """The programs."""
        files = sorted(self._folder.glob(f"{workload or '*'}/program-*.json"))
        return [msgspec.json.decode(p.read_bytes(), type=Workload) for p in files]

    def add_run(self, run: Run) -> None:
        """Write what a run searches, so that it can be resumed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"run-{run.id}.json").write_bytes(msgspec.json.encode(run))

    def runs(self) -> list[Run]:
        """The runs, oldest first."""
        found = [msgspec.json.decode(p.read_bytes(), type=Run) for p in self._folder.glob("run-*.json")]
        return sorted(found, key=lambda r: (r.created, r.id))

    def close(self) -> None:
        """Nothing is open."""
