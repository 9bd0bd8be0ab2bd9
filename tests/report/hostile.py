"""Strings that are more than text somewhere, and a result that is full of them."""

from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Any

from roofline.table import Column, Derivation, Result, Table
from tests.cases import cases

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)//",
    "<iframe src=javascript:alert(1)>",
    "<a href=javascript:alert(1)>click</a>",
    '<a href="https://example.org">link</a>',
    "<b>bold</b><br><i>italic</i>",
    "<style>*{display:none}</style>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</table></section></main>",
    "<!-- comment",
    "--><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)' autofocus='",
    "` onload=alert(1) `",
    "\" style=\"background:url('https://example.org')",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "{{ 7*7 }}",
    "{% for x in range(9) %}x{% endfor %}",
    "${7*7}",
    "%{x} %{customdata} %{y:.3f}",
    "$\\unicode{x3c}script\\unicode{x3e}$",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "\u2028alert(1)\u2029",
    "\x00<script>\x00alert(1)",
    "\u202e<tpircs>",
    "\ud800 half of a pair",
    "theme:ink",
    "__proto__",
    "<base href=https://example.org>",
    "<meta http-equiv=refresh content=0;url=https://example.org>",
    "<link rel=stylesheet href=https://example.org>",
    "<form action=https://example.org><input name=q>",
    "<math><mtext></form><script>alert(1)</script>",
    "<template><script>alert(1)</script></template>",
    "\r\nSet-Cookie: a=b\r\n\r\n<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
]
"""Strings that have broken pages before; `alert` would be seen."""
MANY = [
    wrapped.format(text)
    for wrapped in ("{}", '">{}', "'>{}", "</option></select>{}", "a\\'{}//")
    for text in HOSTILE
]
"""The same behind what could end an attribute, an element or a string: more than 200."""


def in_turn(apart: int) -> list[list[str]]:
    """Lists of all strings, each begun so many further; each string alone where all cases run."""
    turned = [HOSTILE[first:] + HOSTILE[:first] for first in range(0, len(HOSTILE), apart)]
    return cases(turned, [[text] for text in HOSTILE])


def harmless(texts: list[str]) -> list[str]:
    """Words as long as these strings, all different."""
    return [f"{number:h<{len(text)}}" for number, text in enumerate(texts)]


def _table(table: Table, text: Callable[[object], object]) -> Table:
    ours = ("kind",) if "rate" in table.columns else ()  # which roof a row is
    return Table(
        {
            name: column
            if name in ours
            else Column(tuple(text(value) for value in column.values), column.unit, column.basis)
            for name, column in table.columns.items()
        }
    )


def _derivation(entry: Derivation, text: Callable[[object], Any]) -> Derivation:
    inputs = tuple(_derivation(part, text) for part in entry.inputs)
    words = [text("") for _ in range(7)]
    name, unit, formula, substituted, source, basis, note = words
    return Derivation(name, entry.value, unit, formula, substituted, inputs, source, basis, note)


def poisoned(result: Result, texts: Iterable[str]) -> Result:
    """A result in which every text is another, in turn from ``texts``; numbers stay."""
    turn = cycle(texts)

    def text(value: object) -> Any:
        return next(turn) if isinstance(value, str) else value

    return Result(
        kind=text(""),
        tables={name: _table(entry, text) for name, entry in result.tables.items()},
        derivations={name: _derivation(entry, text) for name, entry in result.derivations.items()},
        notes=tuple(text(note) for note in result.notes),
        metadata={
            **{key: text(value) for key, value in result.metadata.items()},
            "summary": (text(""), text("")),
            text(""): text(""),
        },
    )
