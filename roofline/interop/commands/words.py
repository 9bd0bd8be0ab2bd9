"""Words of a command line and where they stand, as a POSIX shell splits them.

`shlex` does not say where a word was, breaks words at ``#``, and keeps the line end of a
continued line.
"""

import re
from typing import Final

from msgspec import Struct

from roofline.schema.document import Text

_SPACE: Final = " \t\r\n"
_OPERATORS: Final = "|&;<>()"
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
MOST: Final = 2**16
"""Longest script that is read. [character]"""


class Word(Struct, frozen=True):
    """One argument, and the offset of its first character in what was read."""

    text: str
    at: int


class CommandLine(Struct, frozen=True):
    """A command: variables set for it, its words, and what they were read from."""

    words: tuple[Word, ...]
    source: Text
    environment: tuple[tuple[str, Word], ...] = ()


def split(command: str, source: str = "command") -> CommandLine:
    r"""Split one command as a shell does, without running anything.

    Raises:
        DocumentError: At a quote that stays open, a variable or a substitution, or a second
            command.

    Examples:
        >>> [word.text for word in split("A=1 vllm serve 'my model' \\\n -tp 2 # more").words]
        ['vllm', 'serve', 'my model', '-tp', '2']
    """
    lines = commands(command, source)
    if len(lines) > 1:
        raise lines[1].source.error(
            lines[1].words[0].at, "another command starts here", "give one command"
        )
    return lines[0] if lines else CommandLine((), Text(command, source))


def commands(script: str, source: str = "command") -> tuple[CommandLine, ...]:
    """Split the commands of a script, one a line; see `split`."""
    text = Text(script, source)
    if len(script) > MOST:
        raise text.error(0, f"{len(script):,} characters are no command", f"give up to {MOST:,}")
    found: list[list[Word]] = [[]]
    at = 0
    while True:
        at, ended = _next(text, at)
        if ended and found[-1]:
            found.append([])
        if at >= len(script):
            break
        word, at = _word(text, at)
        found[-1].append(word)
    return tuple(_line(words, text) for words in found if words)


def _line(words: list[Word], text: Text) -> CommandLine:
    environment = []
    while len(words) > 1 and (match := _ASSIGNED.fullmatch(words[0].text)):
        environment.append((match[1], Word(match[2], words[0].at)))
        words = words[1:]
    return CommandLine(tuple(words), text, tuple(environment))


def _next(text: Text, at: int) -> tuple[int, bool]:
    """Start of the next word, and whether a command ended before it."""
    script, ended = text.content, False
    while at < len(script):
        if script.startswith(("\\\n", "\\\r\n"), at):
            at = script.index("\n", at) + 1
        elif script[at] in _SPACE:
            ended = ended or script[at] == "\n"
            at += 1
        elif script[at] == "#":
            end = script.find("\n", at)
            at = len(script) if end < 0 else end
        else:
            break
    return at, ended


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
