"""Mutated documents: never a traceback, every refusal located, none slow.

``ROOFLINE_STRESS`` sets how many; each has its own seed, so that one can be repeated alone.
"""

import json
import os
import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from roofline.content import shipped
from roofline.errors import DocumentError, QuantityError
from roofline.hardware.reading import read_gpu, read_node
from roofline.model.catalog import architecture
from roofline.model.huggingface import from_config
from roofline.schema import parse_yaml, read

CASES = int(os.environ.get("ROOFLINE_STRESS", "1000"))
SEED = "roofline"
SLOWEST_SECONDS = 0.25
SLOWEST_LOOPS = 6.0
"""The same in loops of `loop`, which slows down as a document does on a machine with other work."""
LONGEST_MESSAGE = 2_000
LOCATED = re.compile(r".+:\d+:\d+")
SIZE_CAP = 1 << 20

# Kept short, so that splices land in every corner of them.
EMBEDDED = {
    "gpu": """\
name: x
sources:
  sheet: {title: "A: data sheet", url: https://example.org, read_on: 2025-01-31}
memory:
  bandwidth: {value: 3.35 TB/s, source: sheet, where: "table 1"}
arithmetic: # dense
  bf16: {value: 989e12, source: assumed, note: 'it''s a guess'}
notes: |
  two
  lines
""",
    "config": """\
{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "rope_theta": 500000.0,
 "rope_scaling": {"factor": 8.0, "type": "llama3"}, "eos_token_id": [128001, 128008],
 "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "pad": null,
 "vocab_size": 128256, "tie_word_embeddings": false, "note": "caf\\u00e9 \\ud83d\\ude00"}
""",
}
_WORDS = """\
{ } [ ] ( ) , : ; - -- --- ... ? | > | |+ >- # % @ ` & * ! !! !!str !!float
!!python/object:os.system !<tag:yaml.org,2002:int> &a *a << <<: ~ null Null true TRUE no on yes 010
0o17 0xFF 0b1 1:30:00
2024-05-01 1e9 1e999 -1e-999 .inf -.INF .nan NaN Infinity -Infinity - + . .. 1. .5 1_000 1,000
9999999999999999999999 -1 0 0.0 -0 1e30 %YAML %TAG \\ \\u0000 \\ud800 \\x \\" " ' '' "" \\n // /* */
source: sources: value: assumed TB/s GiB {} [] [[]] {"a":1,"a":2} a:\\ b "":1 {[a]:1} {a,b}
"""
TOKENS: list[str] = _WORDS.split()
STRANGE: list[str] = [
    *"\x00\x01\x07\x08\t\n\r\x0b\x0c\x1b\x7f\x80\x85\xa0\xad",
    *"\u200b\u202e\u2028\u2029\ufeff\ufffe\uffff\U0001f600é中٣",
    "\r\n",
    "\n\n",
    "  ",
    "\n---\n",
    "\n...\n",
    "\n%TAG ! x:\n",
]
NOT_UTF8 = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80"]


NODES = {"1": 1, "0.5": 1, '"\\n"': 1, "null": 1, "a": 1, "{}": 1, "[[]]": 2, '{"a":1}': 3}


def pool() -> list[tuple[str, str, bytes]]:
    """Kind, suffix and content of the documents that are mutated."""
    found = [("gpu", ".yaml", EMBEDDED["gpu"].encode())]
    found += [("config", ".json", EMBEDDED["config"].encode())]
    for kind, folder in (("gpu", "gpus"), ("node", "nodes")):
        for path in sorted((shipped("hwspecs") / folder).glob("*.yaml")):
            found.append((kind, ".yaml", path.read_bytes()))
    for path in sorted((shipped("scenarios") / "models").glob("*.yaml")):
        content = path.read_bytes()
        config = parse_yaml(content.decode(), path.name).data.get("config")
        if config is None:
            found.append(("patch", ".yaml", content))
            continue
        found.append(("config", ".yaml", content))
        found.append(("config", ".json", json.dumps(config, indent=2).encode()))
    return found


def change_text(text: str, chance: random.Random, others: list[tuple[str, str, bytes]]) -> str:
    at = chance.randrange(len(text) + 1)
    end = min(len(text), at + chance.randrange(1, 40))
    lines = text.splitlines(keepends=True) or [""]
    line = chance.randrange(len(lines))
    match chance.randrange(13):
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
            return "".join([*lines[:line], lines[line], *lines[line:]])
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
        case _:
            other_text = chance.choice(others)[2].decode()
            start = chance.randrange(len(other_text))
            return text[:at] + other_text[start : start + 200] + text[end:]


def change_bytes(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    match chance.randrange(3):
        case 0 if at < len(content):
            flipped = content[at] ^ (1 << chance.randrange(8))
            return content[:at] + bytes([flipped]) + content[at + 1 :]
        case 1:
            return content[:at] + chance.choice(NOT_UTF8) + content[at:]
        case _:
            return content[:at] + chance.randbytes(chance.randrange(1, 9)) + content[at:]


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


def mutate(index: int, originals: list[tuple[str, str, bytes]]) -> tuple[str, str, bytes]:
    chance = random.Random(f"{SEED}:{index}")
    kind, suffix, content = chance.choice(originals)
    text = content.decode()
    for _ in range(chance.choice([1, 1, 2, 3, 5])):
        text = change_text(text, chance, originals)
    if chance.randrange(200) == 0:
        text = grow(text, chance)
    content = text.encode()
    if chance.randrange(5) == 0:
        content = change_bytes(content, chance)
    if chance.randrange(20) == 0:
        suffix = ".yaml" if suffix == ".json" else ".json"
    return kind, suffix, content


def use(kind: str, path: Path) -> None:
    """Everything that is done with a document of that kind before it is costed."""
    if kind == "gpu":
        read_gpu(path)
    elif kind == "node":
        read_node(path)
    elif kind == "patch":
        architecture(str(path))
    else:
        document = read(path)
        inner = isinstance(document.data, dict) and "config" in document.data
        from_config(document, "x", ("config",) if inner else ())


def timed(kind: str, path: Path) -> tuple[float, Exception | None]:
    """CPU time [s], and what was raised."""
    start = time.process_time()
    try:
        use(kind, path)
    except Exception as error:
        return time.process_time() - start, error
    return time.process_time() - start, None


def loop() -> float:
    """CPU time of a million additions: 42 ms where documents take 0.19 s at most. [s]"""
    start, total = time.process_time(), 0
    for number in range(10**6):
        total += number * number
    return time.process_time() - start


def repeated(index: int, originals: list[tuple[str, str, bytes]], folder: Path) -> float:
    """Least CPU time of one case, in loops beside it. [1]"""
    kind, suffix, content = mutate(index, originals)
    path = folder / f"document{suffix}"
    path.write_bytes(content)
    return min(timed(kind, path)[0] / loop() for _ in range(5))


@pytest.mark.stress
def test_mutated_documents_are_read_or_refused_at_a_place_and_in_time(tmp_path: Path) -> None:
    originals = pool()
    outcome: Counter[str] = Counter()
    slowest, which = 0.0, -1
    suspects: list[int] = []
    failures: list[str] = []
    for index in range(CASES):
        kind, suffix, content = mutate(index, originals)
        path = tmp_path / f"document{suffix}"
        path.write_bytes(content)
        seconds, error = timed(kind, path)
        if seconds > SLOWEST_SECONDS:
            suspects.append(index)
        if seconds > slowest:
            slowest, which = seconds, index
        if error is None:
            outcome["accepted"] += 1
        elif not isinstance(error, DocumentError | QuantityError):
            outcome["broken"] += 1
            failures.append(f"{index}: {type(error).__name__}: {str(error)[:200]!r}")
        else:
            outcome["refused"] += 1
            if not LOCATED.fullmatch(error.where) or not error.hint:
                failures.append(f"{index}: not located: {str(error)[:200]!r}, {error.hint!r}")
            if len(str(error)) + len(error.hint) > LONGEST_MESSAGE:
                failures.append(f"{index}: long: {str(error)[:200]!r}, {error.hint[:200]!r}")
            f"{error} {error.hint}".encode()
    # CPU time doubles on a machine with other work: what was slow is measured again, beside loops.
    again = {index: repeated(index, originals, tmp_path) for index in suspects}
    report = (
        f"{CASES:,} documents: {dict(outcome)}; slowest {slowest * 1e3:.0f} ms (case {which}); "
        f"over the limit, and best of five in loops: {again}"
    )
    if folder := os.environ.get("ROOFLINE_STRESS_REPORT"):
        Path(folder).write_text(report + "\n" + "\n".join(failures))
    assert not failures, f"{report}\n" + "\n".join(failures[:20])
    assert all(loops <= SLOWEST_LOOPS for loops in again.values()), report
    assert min(outcome["accepted"], outcome["refused"]) >= CASES // 50, report


@pytest.mark.parametrize(("kind", "suffix", "content"), pool())
def test_the_documents_that_are_mutated_are_good_themselves(
    kind: str, suffix: str, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"document{suffix}"
    path.write_bytes(content)
    if content.decode() == EMBEDDED["gpu"]:
        read(path)
    else:
        use(kind, path)
