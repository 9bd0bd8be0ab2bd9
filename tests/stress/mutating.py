"""Mutations of documents, each repeatable by its number."""

import json
import random
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final

import yaml

_WORDS = """\
{ } [ ] ( ) , : ; - -- --- ... ? | > | |+ >- # % @ ` & * ! !! !!str !!float
!!python/object:os.system !<tag:yaml.org,2002:int> &a *a << <<: ~ null Null true TRUE no on yes 010
0o17 0xFF 0b1 1:30:00
2024-05-01 1e9 1e999 -1e-999 .inf -.INF .nan NaN Infinity -Infinity - + . .. 1. .5 1_000 1,000
9999999999999999999999 -1 0 0.0 -0 1e30 %YAML %TAG \\ \\u0000 \\ud800 \\x \\" " ' '' "" \\n // /* */
source: sources: value: assumed TB/s GiB {} [] [[]] {"a":1,"a":2} a:\\ b "":1 {[a]:1} {a,b}
9223372036854775807 9223372036854775808 -9223372036854775809 1e308 5e-324 ../.. /dev/zero $(id)
"""
TOKENS: Final[list[str]] = _WORDS.split()
STRANGE: Final[list[str]] = [
    *"\x00\x01\x07\x08\t\n\r\x0b\x0c\x1b\x7f\x80\x85\xa0\xad",
    *"\u200b\u202e\u2028\u2029\ufeff\ufffe\uffff\U0001f600é中٣",
    "\r\n",
    "\n\n",
    "  ",
    "\n---\n",
    "\n...\n",
    "\n%TAG ! x:\n",
]
NOT_UTF8: Final = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80"]
NODES: Final = {"1": 1, "0.5": 1, '"\\n"': 1, "null": 1, "a": 1, "{}": 1, "[[]]": 2, '{"a":1}': 3}
"""Items of lists, and how many values each adds to a document."""
KEYS: Final = ["", "x", "1", "-1", "1.5", "nan", "a b", "name", "value", "\x85", "\u202e"]
VALUES: Final[list[Any]] = [
    *(None, True, False, 0, -1, 1.5, 1e308, -0.0, 10**309, 2**63, float("inf"), float("nan")),
    *("", "x", "1", "1e400", "nan", "a" * 5000, "\x85", "\u202e", "1 GB/s", "assumed", "../x"),
    *([], {}, [[]], [None], [1] * 40, {"a": 1}, {"1": []}, {"value": "1 s", "source": "assumed"}),
]
FEW: Final = 12
"""Items of a list that are changed. [1]"""
SIZE_CAP: Final = 1 << 20
GROWN: Final = 1000
"""One text in so many is made as large as documents may be, or larger."""
NUMBERS: Final = (0, 1, 2**31 - 1, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)


def change_text(text: str, chance: random.Random, others: list[bytes]) -> str:
    """Change one place of a text.

    Args:
        text: What is changed.
        chance: Says where and how.
        others: Texts of which a part may be put in.
    """
    at = chance.randrange(len(text) + 1)
    end = min(len(text), at + chance.randrange(1, 40))
    lines = text.splitlines(keepends=True) or [""]
    line = chance.randrange(len(lines))
    match chance.randrange(14):
        case 0:
            return text[:at] + text[end:]
        case 1:
            return text[:end] + text[at:end] * chance.choice([1, 2, 40]) + text[end:]
        case 2:
            return text[:at] + chance.choice(TOKENS) + text[at:]
        case 3:
            return text[:at] + chance.choice(TOKENS) + text[end:]
        case 4:
            return text[:at] + chance.choice(STRANGE) + text[at:]
        case 5:
            return text[:at]
        case 6:
            deep = chance.choice(["[", "{", "{a: ", '{"a":', "- ", "? ", "[\n", "[{a: ", "'", '"'])
            return text[:at] + deep * chance.choice([3, 31, 33, 2000]) + text[at:]
        case 7:
            number = chance.choice(["9", "-0.", "1e", "0x", "00", "1."]) + "7" * chance.choice(
                [1, 20, 63, 64, 65, 5000]
            )
            return re.sub(r"\d+", lambda _: number, text, count=chance.randrange(1, 4))
        case 8:
            return "".join([*lines[: line + 1], *lines[line:]])
        case 9:
            return "".join(lines[:line] + lines[line + 1 :])
        case 10:
            shift = chance.choice([" ", "  ", "\t", "- "])
            return "".join([*lines[:line], shift + lines[line], *lines[line + 1 :]])
        case 11:
            words = re.findall(r"\w+", text) or ["x"]
            word, other = chance.choice(words), chance.choice([*words, *TOKENS])
            replaced: str = text.replace(word, other, chance.choice([1, -1]))
            return replaced
        case 12:  # one value, whole: what stays well-formed goes further
            values = list(re.finditer(r'"[^"\n]*"|[-+.\w]+|$', text))
            found = chance.choice(values)
            value = chance.choice([*TOKENS, *(each.group() for each in values[:50])])
            return text[: found.start()] + value + text[found.end() :]
        case _:
            other_text = chance.choice(others).decode()
            start = chance.randrange(len(other_text))
            return text[:at] + other_text[start : start + 200] + text[end:]


@lru_cache(maxsize=1024)
def tree(text: str) -> Any:
    """Values of a document in JSON or YAML; None where it is neither, or one value alone."""
    try:
        found = json.loads(text) if text.lstrip()[:1] in ("{", "[") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return None
    return found if isinstance(found, dict | list) else None


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Mappings and lists of a document with each of their keys; of long lists the first few."""
    keys = list(value) if isinstance(value, dict) else range(min(len(value), FEW))
    for key in keys if isinstance(value, dict | list) else ():
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def change_tree(document: Any, chance: random.Random) -> None:
    """Change one place of a document, which stays well-formed and so is read further."""
    every = list(places(document))
    if not every:
        return
    parent, key = chance.choice(every)
    old, (other, place) = parent[key], chance.choice(every)
    match chance.randrange(6):
        case 0:
            del parent[key]
        case 1:
            parent[key] = deepcopy(other[place])
        case 2 if isinstance(parent, dict):
            parent[chance.choice(KEYS)] = parent.pop(key)
        case 3 if isinstance(old, list):
            parent[key] = old[: chance.randrange(len(old) + 1)] * chance.choice([1, 2, 9])
        case 4 if isinstance(old, int | float) and not isinstance(old, bool):
            parent[key] = chance.choice([-old, 0, old * 10 ** chance.choice([3, 18]), 10**309])
        case _:
            parent[key] = deepcopy(chance.choice(VALUES))


def change_bytes(content: bytes, chance: random.Random) -> bytes:
    """Change one place of a text to what may be no UTF-8."""
    at = chance.randrange(len(content) + 1)
    match chance.randrange(3):
        case 0 if at < len(content):
            flipped = content[at] ^ (1 << chance.randrange(8))
            return content[:at] + bytes([flipped]) + content[at + 1 :]
        case 1:
            return content[:at] + chance.choice(NOT_UTF8) + content[at:]
        case _:
            return content[:at] + chance.randbytes(chance.randrange(1, 9)) + content[at:]


def change_packed(content: bytes, chance: random.Random) -> bytes:
    """Change one place of a file of bytes: its numbers, its length, its parts."""
    at = chance.randrange(len(content) + 1)
    end = min(len(content), at + chance.randrange(1, 40))
    match chance.randrange(6):
        case 0:
            wide = chance.choice([4, 8])
            number = int(chance.choice(NUMBERS) % 2 ** (8 * wide))
            return content[:at] + number.to_bytes(wide, "little") + content[at + wide :]
        case 1:
            return content[:at]
        case 2:
            return content[:at] + content[end:]
        case 3:
            return content[:end] + content[at:end] * chance.choice([1, 40]) + content[end:]
        case 4:
            token: bytes = chance.choice(TOKENS).encode()
            return content[:at] + token + content[at + len(token) :]
        case _:
            return change_bytes(content, chance)


def grow(text: str, chance: random.Random) -> str:
    """Make the text as large as the caps allow, or larger: well-formed, or by repeating a part."""
    if chance.randrange(2):
        item = chance.choice(list(NODES))
        nodes = NODES[item]
        bulk = ",".join([item] * ((SIZE_CAP // 12 if chance.randrange(9) else 110_000) // nodes))
        if text.startswith("{"):
            return '{"bulk": [' + bulk + "]," + text[1:]
        return f"bulk: [{bulk}]\n{text}"
    at = chance.randrange(len(text) + 1)
    part = chance.choice(
        [text[at : at + chance.randrange(1, 60)], chance.choice(TOKENS), chance.choice(STRANGE)]
    )
    part = (part or "x") + chance.choice(["", " ", "\n", ",", ", ", "\n- "])
    size = chance.choice([SIZE_CAP // 8, SIZE_CAP - len(text.encode()) - 8, SIZE_CAP])
    return text[:at] + part * (size // len(part.encode())) + text[at:]


def mutated(content: bytes, chance: random.Random, others: list[bytes], *, packed: bool) -> bytes:
    """A document with some places changed.

    Args:
        content: The original.
        chance: Says where and how.
        others: Texts of which a part may be put in.
        packed: Whether it is a file of bytes, not a text.
    """
    times = chance.choice([1, 1, 2, 3, 5])
    if packed:
        for _ in range(times):
            content = change_packed(content, chance)
        return content
    text = content.decode()
    if chance.randrange(4) == 0 and (document := deepcopy(tree(text))) is not None:
        for _ in range(times):
            change_tree(document, chance)
        plain = bool(chance.randrange(2))
        return json.dumps(document, ensure_ascii=plain, default=str).encode()
    for _ in range(times):
        text = change_text(text, chance, others)
    if chance.randrange(GROWN) == 0:
        text = grow(text, chance)
    content = text.encode()
    return change_bytes(content, chance) if chance.randrange(5) == 0 else content
