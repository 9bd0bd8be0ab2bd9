"""Figures of text in characters, by which networks with different tokenizers compare."""

from dataclasses import replace
from math import isfinite

from roofline.errors import InputError
from roofline.table import Result, table


def in_characters(result: Result, name: str, characters: float) -> Result:
    """The result with throughput and price of characters beside those of tokens.

    A tokenizer with c characters a token makes c · tokens/s characters a second, and a million of
    them cost as much as a million / c tokens. Source: arithmetic.

    Args:
        result: Answer, as it is where nothing is said of characters.
        name: Table with its throughput.
        characters: Characters of a token, of the text that is served; 0 where nobody says. [1]

    Raises:
        InputError: It is no number of characters.
    """
    if not characters:
        return result
    if not (isfinite(characters) and 0 < characters <= 100):
        raise InputError(
            f"{characters:g} characters of a token",
            hint="give a mean of the text, such as 4.2: English takes 4 to 5 in large vocabularies",
        )
    rows, more = list(result.tables[name].rows()), []
    for metric, new, unit, factor, meaning in (
        ("throughput_tok_s", "throughput_char_s", "char/s", characters, "output in characters"),
        ("usd_per_mtok", "usd_per_mchar", "$", 1.0 / characters, "per million characters of it"),
    ):
        for row in rows:
            if row["metric"] == metric:
                ends = {
                    end: row[end] * factor
                    for end in ("value", "low", "high")
                    if row.get(end) is not None
                }
                more.append({**row, **ends, "metric": new, "unit": unit, "meaning": meaning})
    metadata = {**result.metadata, "characters_per_token": characters}
    tables = {**result.tables, name: table([*rows, *more], {})}
    return replace(result, tables=tables, metadata=metadata)
