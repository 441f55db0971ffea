"""Shared parts of the verbs: files, `FILE:NAME`, `--set`, `--pin`, plain tables, JSON lines, readable times."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from mslang.brevity import brief
from mslang.diagnostics import MsError, problem

if TYPE_CHECKING:
    from mslang.tune.instances import Instance


WRONG_USE = "MS701"
"""The code of an invalid command line; exit status 2."""


class UsageError(MsError):
    """An invalid command line; exit status 2."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(problem(WRONG_USE, message, help=help))


def split_item(text: str) -> tuple[Path, str | None]:
    """File and name of `gemm.ms:matmul`; the name is None if only a file is given."""
    if Path(text).exists():
        return Path(text), None
    path, colon, name = text.rpartition(":")
    if colon and path and "/" not in name and "\\" not in name:
        return Path(path), name
    return Path(text), None


def source_files(names: Iterable[str]) -> list[str]:
    """The files that a command line names, each once; for a folder, all `.ms` files below it.

    Raises:
        UsageError: a name is empty, as an unset variable of a script is.
        MsError: MS702, a folder contains none.
    """
    found: dict[str, None] = {}
    for name in names:
        if not name:
            raise UsageError("the name of a file is empty", "`.` is the current folder")
        folder = Path(name)
        if not folder.is_dir():
            found[name] = None
            continue
        inside = sorted(p for p in folder.rglob("*.ms") if p.is_file() and not _is_hidden(p.relative_to(folder)))
        if not inside:
            raise MsError(
                problem("MS702", f"there is no `.ms` file in {folder}", help="name a file, or another folder")
            )
        found |= dict.fromkeys(map(str, inside))
    return list(found)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def read_text(path: Path) -> str:
    """A file's text, with plain line ends and without a byte order mark; MS702 if it cannot be read."""
    try:
        return decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise MsError(
            problem("MS702", f"cannot read {path}", why=error.strerror or str(error), help="check the path")
        ) from error


def standard_input() -> BinaryIO:
    """Standard input, for bytes; MS702 if it is closed."""
    # Python has none if it was closed at the start (`<&-`).
    found: TextIO | None = sys.stdin
    if found is None:
        raise MsError(problem("MS702", "cannot read standard input", why="it is closed"))
    return found.buffer


def decoded(data: bytes, name: str) -> str:
    """The text of a file's bytes; MS702 if they are not UTF-8."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise MsError(problem("MS702", f"{name} is not UTF-8 text", why=str(error), help="save it as UTF-8")) from error


def encoded(text: str, like: bytes) -> bytes:
    """The bytes of a text, with the line ends that most lines of the file's present contents have."""
    both = like.count(b"\r\n")
    ends = {"\n": like.count(b"\n") - both, "\r\n": both, "\r": like.count(b"\r") - both}
    return text.replace("\n", max(ends, key=lambda end: ends[end])).encode()


def name_text(path: Path | str) -> str:
    """The name of a file as text: what is no UTF-8 in it is escaped."""
    return str(path).encode(errors="backslashreplace").decode()


def shell_word(text: Path | str) -> str:
    """A text as one word of a command that is suggested: in quotes if a shell would split or change it."""
    return shlex.quote(str(text))


def check_writable(path: Path) -> None:
    """Raise MS702 if the file is write-protected, even if the user could write it nevertheless."""
    if path.exists() and not path.stat().st_mode & 0o222:
        help = f"chmod u+w {shell_word(path)}"
        raise MsError(problem("MS702", f"cannot write {path}", why="it is write-protected", help=help))


def write_text(path: Path, text: str) -> None:
    """Replace a file's text as `write_bytes` does; the line ends are those of most lines there."""
    try:
        present = path.read_bytes() if path.is_file() else b""
    except OSError as error:
        raise _unwritable(path, error) from error
    write_bytes(path, encoded(text, present))


def write_bytes(path: Path, data: bytes, *, executable: bool = False) -> None:
    """Replace a file atomically: a crash leaves the old data or the new.

    A link stays, and the file that it leads to is replaced. Pipes and devices are written to.

    Args:
        path: the file.
        data: what it will hold.
        executable: whether those who may read it may execute it.

    Raises:
        MsError: MS702, it cannot be written.
    """
    import secrets

    try:
        check_writable(path)
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        path = resolved(path)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            # A new file has the mode of the user's umask.
            with temporary.open("xb") as file:
                mode = (path if path.exists() else temporary).stat().st_mode
                temporary.chmod(mode | (mode & 0o444) >> 2 if executable else mode)
                file.write(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def resolved(path: Path) -> Path:
    """The place that a path leads to, links followed; OSError if they lead in a circle."""
    with suppress(FileNotFoundError):
        path.stat()
    return path.resolve()


def _unwritable(path: Path, error: OSError) -> MsError:
    help = "check the folder's permissions" if isinstance(error, PermissionError) else "choose another place"
    return MsError(problem("MS702", f"cannot write {path}", why=error.strerror or str(error), help=help))


class _Sizes(argparse.Action):
    """Collects sizes, each with one value."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Add a size."""
        before = getattr(namespace, self.dest)
        name, value = values
        if any(name == known and value != other for known, other in before):
            raise argparse.ArgumentError(self, f"`{name}` is given twice")
        setattr(namespace, self.dest, [*before, values])


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """`--set M=128`, any number of times."""
    parser.add_argument(
        "--set",
        dest="sizes",
        metavar="NAME=SIZE",
        action=_Sizes,
        default=[],
        type=_size,
        help="a size of the program, e.g. --set M=128",
    )


def add_pins(parser: argparse.ArgumentParser) -> None:
    """`--pin ti=[8,8,8,8]`, any number of times."""
    parser.add_argument(
        "--pin",
        dest="pins",
        metavar="ADDRESS=VALUE",
        action="append",
        default=[],
        type=_pin,
        help="a decision, e.g. --pin ti=[8,8,8,8]",
    )


def add_native(parser: argparse.ArgumentParser) -> None:
    """`--allow-native`."""
    parser.add_argument(
        "--allow-native",
        action="store_true",
        help="let implementations in LLVM text call functions and hold assembly: only for files that you trust",
    )


def add_back_end(parser: argparse.ArgumentParser) -> None:
    """`--backend NAME`."""
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help="what compiles it (default: what serves the target)",
    )


def _size(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=SIZE, a size being a whole number")
    return name.strip(), natural(value)


def _pin(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise argparse.ArgumentTypeError(f"'{text}' is not ADDRESS=VALUE")
    return name.strip().strip('"'), value.strip()


def likely(text: str) -> Instance:
    """An option's value that is a value of each dynamic size, and perhaps a weight: `M=128`, `M=128,N=64:3`."""
    from mslang.tune.instances import Instance

    sizes, colon, weight = text.partition(":")
    pairs = [_size(part) for part in sizes.split(",")]
    if len(dict(pairs)) < len(pairs):
        raise argparse.ArgumentTypeError(f"'{text}' gives a size twice")
    try:
        return Instance(dict(pairs), positive(weight) if colon else 1)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"the weight in '{text}': {error}") from None


LARGEST = 2**63 - 1
"""The largest number that an option takes: a record keeps it in 64 bits."""


def natural(text: str) -> int:
    """An option's value that is a non-negative integer."""
    return _whole(text, 0)


def positive(text: str) -> int:
    """An option's value that is a positive integer."""
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    digits = text.strip()
    if not digits.isdecimal() or (least and not digits.strip("0")):
        raise argparse.ArgumentTypeError(f"'{brief(text)}' is not a whole number from {least} on")
    if len(digits.lstrip("0")) > len(str(LARGEST)) or int(digits) > LARGEST:
        raise argparse.ArgumentTypeError(f"'{brief(text)}' is too large: at most {LARGEST}")
    return int(digits)


def processes(text: str) -> int:
    """An option's value that is a number of worker processes."""
    from mslang.workers.pool import most_workers

    if positive(text) > most_workers():
        raise argparse.ArgumentTypeError(f"'{text}' are too many: at most {most_workers()} on this machine")
    return positive(text)


def counted(number: int, what: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def emit(data: object) -> None:
    """One JSON line on standard output."""
    print(json.dumps(data, default=str), flush=True)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns, numbers to the right."""
    cells = [list(map(str, head)), *(["" if c is None else str(c) for c in row] for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    lines = []
    for number, row in enumerate(cells):
        lines.append("  ".join(_aligned(c, w) for c, w in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            lines.append("  ".join("-" * w for w in widths))
    return "\n".join(lines)


def _aligned(cell: str, width: int) -> str:
    return cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)


def note(text: str) -> None:
    """Print a note for the user on standard error."""
    print(text, file=sys.stderr, flush=True)
