"""Words of a command line and where they stand, as a POSIX shell splits them.

`shlex` does not say where a word was, breaks words at ``#``, and keeps the line end of a
continued line.
"""

import re
from dataclasses import dataclass
from typing import Final

from roofline.schema.document import Text

_SPACE: Final = " \t\r\n"
_OPERATORS: Final = "|&;<>()"
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
MOST: Final = 2**16
"""Longest command that is read. [character]"""


@dataclass(frozen=True, slots=True)
class Word:
    """One argument, and the offset of its first character in what was read."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Line:
    """A command: variables set for it, its words, and what they were read from."""

    words: tuple[Word, ...]
    source: Text
    environment: tuple[tuple[str, Word], ...] = ()


def split(command: str, source: str = "command") -> Line:
    r"""Split a command as a shell does, without running anything.

    Parameters
    ----------
    command
        One simple command; lines that end in a backslash go on.
    source
        What errors call it.

    Raises
    ------
    DocumentError
        At a quote that stays open, a variable or a substitution, or a second command.

    Examples
    --------
    >>> [word.text for word in split("A=1 vllm serve 'my model' \\\n -tp 2 # more").words]
    ['vllm', 'serve', 'my model', '-tp', '2']
    """
    text = Text(command, source)
    if len(command) > MOST:
        raise text.error(0, f"{len(command):,} characters are no command", f"give up to {MOST:,}")
    words, at = [], 0
    while (at := _next(text, at)) < len(command):
        word, at = _word(text, at)
        words.append(word)
    environment = []
    while words and (match := _ASSIGNED.fullmatch(words[0].text)):
        environment.append((match[1], Word(match[2], words[0].at)))
        words.pop(0)
    return Line(tuple(words), text, tuple(environment))


def _next(text: Text, at: int) -> int:
    """Start of the next word."""
    command = text.content
    while at < len(command):
        if command[at] in _SPACE:
            at += 1
        elif command.startswith(("\\\n", "\\\r\n"), at):
            at = command.index("\n", at) + 1
        elif command[at] == "#":
            end = command.find("\n", at)
            at = len(command) if end < 0 else end
        else:
            break
    return at


def _word(text: Text, start: int) -> tuple[Word, int]:
    """The word that starts here, and where it ends."""
    command, out, at = text.content, [], start
    while at < len(command) and command[at] not in _SPACE:
        if command.startswith(("\\\n", "\\\r\n"), at):
            at = command.index("\n", at) + 1
            continue
        piece, at = _piece(text, at)
        out.append(piece)
    return Word("".join(out), start), at


def _piece(text: Text, at: int) -> tuple[str, int]:
    """A character, an escaped one, or what stands in quotes."""
    command = text.content
    match command[at]:
        case "'":
            end = command.find("'", at + 1)
            if end < 0:
                raise _open(text, at)
            return command[at + 1 : end], end + 1
        case '"':
            return _double_quoted(text, at)
        case "\\":
            if at + 1 == len(command):
                raise text.error(at, "the command ends in a backslash", "leave it out")
            return command[at + 1], at + 2
        case "$" | "`":
            raise _expanded(text, at)
        case operator if operator in _OPERATORS:
            raise text.error(
                at,
                f"{operator!r} starts another command or a redirection",
                "give one command, and put text that has it in quotes",
            )
        case plain:
            return plain, at + 1


def _double_quoted(text: Text, start: int) -> tuple[str, int]:
    command, out, at = text.content, [], start + 1
    while at < len(command) and command[at] != '"':
        if command[at] in "$`":
            raise _expanded(text, at)
        if command[at] == "\\" and command[at + 1 : at + 2] in tuple('"\\$`\n'):
            out.append(command[at + 1].replace("\n", ""))
            at += 2
            continue
        out.append(command[at])
        at += 1
    if at >= len(command):
        raise _open(text, start)
    return "".join(out), at + 1


def _open(text: Text, at: int) -> Exception:
    return text.error(at, f"the quote {text.content[at]} stays open", "close it")


def _expanded(text: Text, at: int) -> Exception:
    return text.error(
        at,
        "only a shell knows what this stands for",
        "write the value itself, or put the text in single quotes",
    )
