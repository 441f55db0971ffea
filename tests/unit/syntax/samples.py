"""The samples of the language page, and edits of them."""

import random
from pathlib import Path

from mslang.syntax.lexer import TRIVIA, tokenize
from mslang.syntax.tree import File

FOLDER = Path(__file__).parents[2] / "fixtures" / "samples"
SAMPLES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.ms"))}
ODD = ["$", '"', '"""', "`", ";", "é", "12abc", "0x", "?", "'"]
TOKENS = sorted({t.text for text in SAMPLES.values() for t in tokenize(text) if t.kind not in TRIVIA} | set(ODD))


def covers(file: File) -> bool:
    """Do the items and what leads them cover the text?"""
    return file.leading + "".join(placed.parsed.text for placed in file.items) == file.text


def edit_one_token(text: str, chance: random.Random) -> tuple[str, int, str]:
    """Leave out, insert or exchange a token: the new text, where, and what was done."""
    token = chance.choice([t for t in tokenize(text) if t.kind not in TRIVIA])
    word = chance.choice(TOKENS)
    match chance.randrange(3):
        case 0:
            return text[: token.start] + text[token.end :], token.start, f"without {token.text!r}"
        case 1:
            return text[: token.start] + word + " " + text[token.start :], token.start, f"with {word!r}"
    return text[: token.start] + word + text[token.end :], token.start, f"{word!r} for {token.text!r}"
