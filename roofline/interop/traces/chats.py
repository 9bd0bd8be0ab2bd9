"""Conversations and prompts as text, whose lengths are estimated: nobody recorded their tokens.

Of a conversation of ShareGPT's shape, ``conversations`` of ``from`` and ``value``, the first
message of the user and the answer to it are a request, as benchmarks take it
(``vllm/benchmarks/datasets`` of vLLM 0.33, ``sglang/benchmark/datasets/sharegpt.py`` of SGLang
0.5.23). Of OpenAI's shape, ``messages`` of ``role`` and ``content``, alone or in the ``body`` of a
batch request, all before the last answer is the prompt; without an answer its length is what
``max_completion_tokens`` or ``max_tokens`` allow. ``prompt`` with ``completion``,
``output_tokens`` or ``max_tokens`` is a request too. A file is one list, or an object after the
other.
"""

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from roofline.content import label
from roofline.errors import DocumentError
from roofline.interop.files import unpacked
from roofline.interop.traces.lines import BLOCK, located
from roofline.schema.files import most_unpacked, too_packed
from roofline.serving.requests import MOST_TOKENS
from roofline.units import PREFIX

PER_TOKEN: Final = 4.0
"""Characters of a token of English text, with its spaces. Source: OpenAI, "What are tokens and how
to count them?" (help.openai.com, article 4936856). [1]"""
TITLES: Final = {
    "sharegpt": "conversations as ShareGPT's",
    "openai": "messages as OpenAI's interface takes them",
    "prompts": "prompts as text",
}
LONGEST: Final = int(16 * PREFIX["Mi"])
"""Characters of one conversation. [1]"""
_WIDE: Final = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
"""Characters of Chinese, Japanese and Korean, of which each is counted as a token, assumed."""
_DECODER: Final = json.JSONDecoder()
_BETWEEN: Final = re.compile(r"[\s,]*")
_LIMITS: Final = (
    "max_completion_tokens", "max_tokens", "output_tokens", "output_len", "expected_output_len",
)  # fmt: skip
_USERS: Final = ("human", "user")
HEAD: Final = int(64 * PREFIX["Ki"])
"""Bytes that tell what a file is. [B]"""


def estimated(text: str) -> int:
    """Tokens of a text by its characters, 1 at least. [token]

    >>> estimated("four letters to a token, spaces too."), estimated("你好"), estimated("")
    (9, 2, 1)
    """
    wide = len(_WIDE.findall(text))
    return max(round((len(text) - wide) / PER_TOKEN) + wide, 1)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked where its name ends in ``.gz``; DocumentError as for lines."""
    hints = {"folder": "name a file in it", "packed": "copy the whole file again"}
    opened = gzip.open if path.suffix == ".gz" else open
    with unpacked(label(path), **hints), opened(path, "rb") as file:
        yield cast(BinaryIO, file)


def kind_of(path: Path) -> str:
    """Shape of a file by its beginning; empty where it is none of these, or can be read once."""
    if not path.is_file():  # a pipe would have lost its beginning
        return ""
    with _opened(path) as file:
        head = file.read(HEAD).decode("utf-8-sig", "ignore").lstrip()
    if not head.startswith(("{", "[")) or '"input_length"' in head:
        return ""
    if '"conversations"' in head:
        return "sharegpt"
    return "openai" if '"messages"' in head else "prompts" if '"prompt"' in head else ""


def lengths(path: Path, kind: str) -> Iterator[tuple[int, int]]:
    """Estimated tokens of the prompt and of the answer of each request; 0 where it has none.

    DocumentError where the file is no JSON, or an item is not of its kind.
    """
    source = label(path)
    for line, item in _items(path, source):
        if not isinstance(item, dict):
            raise located(source, line, "this is no object", "a request is one, in braces")
        try:
            yield _of_turns(item) if kind == "sharegpt" else _of_messages(item)
        except (ValueError, ArithmeticError):
            message = "what the answer may have is no number of tokens"
            raise located(source, line, message, f"give 1 to {MOST_TOKENS:,}") from None
        except (KeyError, TypeError, AttributeError):
            hint = {
                "sharegpt": 'write {"conversations": [{"from": "human", "value": "…"}, …]}',
                "openai": 'write {"messages": [{"role": "user", "content": "…"}], "max_tokens": 9}',
                "prompts": 'write {"prompt": "…", "max_tokens": 9}',
            }[kind]
            raise located(source, line, f"this is none of the {TITLES[kind]}", hint) from None


def _items(path: Path, source: str) -> Iterator[tuple[int, Any]]:
    """Line and value of each item of a list, or of each object after another."""
    text, line, read, rest, more = "", 1, 0, b"", True
    most = most_unpacked(path, source)
    with _opened(path) as file:
        while more:
            block = file.read(BLOCK)
            first, more, read = not read, bool(block), read + len(block)
            if read > most:
                raise too_packed(source, line)
            new, rest = _decoded(rest + block, more, source, line)
            text = _unlisted(new) if first else text + new
            at = counted = 0
            while (found := _value(text, at)) is not None:
                start, value, at = found
                line += text.count("\n", counted, start)
                counted = start
                yield line, value
            at = _next(text, at)
            line += text.count("\n", counted, at)
            text = text[at:]
            if len(text) > LONGEST:
                message = f"an item is longer than {LONGEST:,} characters, or no JSON"
                raise located(source, line, message, "check that this is a data set")
    if text.strip() not in ("", "]"):
        raise located(
            source, line, "this is not JSON, or cut off", "copy the whole file again, or correct it"
        )


def _unlisted(text: str) -> str:
    """Beginning of a file with a space in place of the bracket that opens a list."""
    text = text.removeprefix("\ufeff")
    return text.replace("[", " ", 1) if text.lstrip().startswith("[") else text


def _next(text: str, at: int) -> int:
    """Place of the next item: spaces and commas are between them."""
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> tuple[int, Any, int] | None:
    """Start, value and end of the next item; None where the text has no whole one."""
    start = _next(text, at)
    if start >= len(text) or text[start] == "]":
        return None
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return start, value, end


def _decoded(data: bytes, more: bool, source: str, line: int) -> tuple[str, bytes]:
    """Text of some bytes, and those of a character that goes on in the next block."""
    try:
        return data.decode("utf-8"), b""
    except UnicodeDecodeError as error:
        if more and len(data) - error.start < 4:
            return data[: error.start].decode("utf-8"), data[error.start :]
        number = line + data.count(b"\n", 0, error.start)
        message = f"the byte 0x{data[error.start]:02X} is not UTF-8"
        raise located(source, number, message, "save the file as UTF-8") from None


def _of_turns(item: dict[str, Any]) -> tuple[int, int]:
    turns = item["conversations"]
    for asked, answered in pairwise(turns):
        if asked["from"] in _USERS and answered["from"] not in _USERS:
            return estimated(asked["value"]), estimated(answered["value"])
    return 0, 0


def _of_messages(item: dict[str, Any]) -> tuple[int, int]:
    body = item.get("body", item)
    allowed = _allowed(next((body[name] for name in _LIMITS if body.get(name) is not None), 0))
    if "messages" not in body:
        answer = body.get("completion")
        prompt = estimated(_text(body["prompt"]))
        return prompt, estimated(_text(answer)) if answer is not None else allowed
    messages = body["messages"]
    answered = bool(messages) and messages[-1]["role"] == "assistant"
    before = messages[:-1] if answered else messages
    prompt = estimated("\n".join(_text(each["content"]) for each in before)) if before else 0
    return prompt, estimated(_text(messages[-1]["content"])) if answered else allowed


def _allowed(value: Any) -> int:
    """Tokens that an answer may have, 0 where there is no limit; ValueError where it is none."""
    number = float(value)
    if not number <= MOST_TOKENS:
        raise ValueError
    return int(max(number, 0.0))


def _text(content: Any) -> str:
    """Text of a message, or of the parts of it that are text."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    return "".join(part["text"] for part in content if part.get("type") == "text")


def unanswered(path: Path) -> DocumentError:
    """Error for a file of which no item has a prompt and a length of the answer."""
    return DocumentError(
        f"{label(path)} has no request with a prompt and an answer",
        hint="give each an answer, or max_tokens",
    )
