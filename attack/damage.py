"""Ways in which a file goes bad, is made by another program, or means harm."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def damaged(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """A name of the damage, and the content after it."""
    name = rng.choice(sorted(DAMAGES))
    return name, DAMAGES[name](content, rng)


def _flipped(content: bytes, rng: random.Random) -> bytes:
    array = bytearray(content)
    for _ in range(rng.choice([1, 8, 64]) if content else 0):
        array[rng.randrange(len(array))] ^= 1 << rng.randrange(8)
    return bytes(array)


def _inserted(*pieces: bytes):
    def insert(content: bytes, rng: random.Random) -> bytes:
        place = rng.randrange(len(content) + 1)
        return content[:place] + rng.choice(pieces) + content[place:]

    return insert


def _lines(content: bytes, rng: random.Random) -> bytes:
    """One line twice, gone, or moved to the top."""
    lines = content.splitlines(keepends=True) or [b""]
    line = lines.pop(rng.randrange(len(lines)))
    return b"".join(rng.choice([[line, line, *lines], lines, [line, *lines]]))


def _replaced(content: bytes, rng: random.Random) -> bytes:
    """A word by something of another kind, wherever it stands."""
    words = [
        word
        for word in (b"text", b"label", b"fruit", b"metal", b"name", b"true", b"null", b"0", b"1", b":")
        if word in content
    ]
    others = [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"-1",
        b"1e999",
        b"\\ud800",
        b"text",
        b"NaN",
        b"\x1b[31m",
        b"=1+1",
        b"$x$",
        b"1" * 5000,
    ]
    return content.replace(rng.choice(words), rng.choice(others), rng.choice([1, -1])) if words else b""


DAMAGES = {
    "empty": lambda content, rng: b"",
    "cut": lambda content, rng: content[: rng.randrange(len(content) + 1)],
    "text": lambda content, rng: b"this is no such file\n",
    "flipped": _flipped,
    "zeros": lambda content, rng: bytes(len(content)),
    "random": lambda content, rng: rng.randbytes(500),
    "json": lambda content, rng: rng.choice([b"null", b"[]", b"{}", b"3", b'"a"', b"[[]]", b"NaN", b"true"]),
    "nested": lambda content, rng: rng.choice([b"[", b'{"text":', b"- "]) * 50_000,
    "aliases": lambda content, rng: b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "mark": lambda content, rng: rng.choice(BOMS) + content,
    "utf-16": lambda content, rng: content.decode(errors="replace").encode("utf-16"),
    "latin-1": lambda content, rng: content.replace(b"e", b"\xe9"),
    "old Mac": lambda content, rng: content.replace(b"\r", b"").replace(b"\n", b"\r"),
    "quotes": _inserted(b'"', b"'", b'""', b'"\n'),
    "zero byte": _inserted(b"\0", b"\0" * 100),
    "not UTF-8": _inserted(b"\xff", b"\xc3", b"\xed\xa0\x80"),
    "control": _inserted(b"\x1b[2J", b"\x07", b"\xe2\x80\xae", b"\x85", b"\x0c"),
    "surrogate": _inserted(b"\\ud800", b'"\\udfff"'),
    "long number": _inserted(b"9" * 5000, b"1e99999"),
    "long line": _inserted(b"word " * 400_000),
    "separators": lambda content, rng: content.replace(b",", rng.choice([b";", b"\t", b",,", b"|"])),
    "lines": _lines,
    "replaced": _replaced,
}


def foreign(config: dict[str, Any], mark: Path, rng: random.Random) -> dict[str, Any]:
    """The config of a run that would write the file `mark`, were anything in it executed."""
    node: Any = {
        "_target_": "pathlib.Path.write_text",
        "_args_": [{"_target_": "pathlib.Path", "_args_": [str(mark)]}, "x"],
    }
    if rng.random() < 0.5:
        node = {
            "_target_": rng.choice(["os.system", "subprocess.call", "losses.distributed.os.system"]),
            "_args_": [f"touch {mark}"],
        }
    group = rng.choice(sorted(key for key, value in config.items() if isinstance(value, dict)))
    own = config[group]
    return config | {
        group: rng.choice(
            [node, {**own, "extra": node}, {**own, "extra": [node]}, {**own, "_target_": node["_target_"]}]
        )
    }


def pickled(mark: Path) -> bytes:
    """A checkpoint whose pickle would write the file `mark`."""
    return f"cos\nsystem\n(S'touch {mark}'\ntR.".encode()


def changed_json(content: bytes, rng: random.Random) -> bytes:
    """A value of a JSON object by one of another kind, or its key gone."""
    node = json.loads(content)
    key = rng.choice(sorted(node))
    if rng.random() < 0.3:
        del node[key]
    else:
        node[key] = rng.choice([None, [], {}, -1, 1e300, "", "x", [1], ["a", None], True, 10**30])
    return json.dumps(node).encode()
