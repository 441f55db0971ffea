"""What options of `mslang db` select in a record store."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from mslang.cli.common import UsageError
from mslang.cli.render import print_diagnostics
from mslang.diagnostics import MsError, problem
from mslang.tune.database import Database


def workload_hashes(database: Database, program: str | None) -> list[str | None]:
    """The workloads that a name, or else a prefix of a hash, selects; [None] selects all.

    Raises:
        MsError: MS701, the text is empty; MS703, there is none.
    """
    if program is None:
        return [None]
    _require_text("--program", program, "a program, or the start of its hash")
    texts = database.texts()
    named = dict.fromkeys(w.hash for w in texts if w.name == program)
    found = named or dict.fromkeys(w.hash for w in texts if w.hash.startswith(program))
    if not found:
        names = ", ".join(sorted({w.name for w in texts})) or "none at all"
        raise MsError(problem("MS703", f"no records of '{program}' in {database.name}", help=f"there are: {names}"))
    return list(found)


def machine_key(known: Mapping[str, str], wanted: str) -> str:
    """The key of the machine that a name, or else a prefix of a key, selects.

    Raises:
        MsError: MS701, the text is empty; MS703, there is none; MS704, there are several.
    """
    _require_text("--machine", wanted, "a machine, or the start of its key")
    named = [key for key, name in known.items() if name == wanted]
    found = named or [key for key in known if key and key.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        keys = ", ".join(key[:8] or "unknown" for key in found)
        raise MsError(problem("MS704", f"'{wanted}' names several machines", why=f"keys: {keys}", help="give the key"))
    raise MsError(
        problem(
            "MS703",
            f"no records of the machine '{wanted}'",
            help=f"the machines are: {', '.join(f'{name} ({key[:8]})' for key, name in known.items()) or 'none'}",
        )
    )


def _require_text(option: str, text: str, what: str) -> None:
    """Refuse an empty text, such as a shell variable that is not set: it would be a prefix of everything."""
    if not text.strip():
        raise UsageError(f"{option}: the text is empty", f"name {what}, or leave {option} out")


def warn_of_damage(database: Database, as_json: bool) -> None:
    """Print what of a store is damaged."""
    damage = database.check()
    if damage is not None:
        print_diagnostics((damage,), "json" if as_json else "text", stream=sys.stderr)
