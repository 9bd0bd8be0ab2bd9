"""Names of GGUF files, which say how the weights in them are stored."""

import re
from typing import Final

from roofline.model.checkpoint_names import PLAIN, gguf_weights
from roofline.model.mixes import FILES, spelled

SUFFIX: Final = ".gguf"
HELD: Final = {weights: word.upper() for word, weights in PLAIN.items()}
"""Words of `PLAIN` by format, the last where a format has two: F16."""
_STORED: Final = re.compile(
    rf"(?:^|[-.])(?P<word>(?:UD-)?(?:I?Q|TQ)\d\w*|{'|'.join(PLAIN)})$", re.IGNORECASE
)

_SHARD: Final = re.compile(r"-\d{5}-of-\d{5}$")
"""The part of a file that ``llama-gguf-split`` divided."""


def word_of(weights: str) -> str:
    """Format of weights as names of files have it; empty where no file is in it.

    >>> word_of("q4_k_m"), word_of("bf16"), word_of("int4")
    ('Q4_K_M', 'BF16', '')
    """
    name = spelled(weights)
    return name.replace("-", "_").upper() if name in FILES else HELD.get(name, "")


def stored_as(word: str) -> tuple[str, tuple[str, ...]]:
    """`weights` of a file by the format in its name, and notes on it."""
    weights = gguf_weights(word)
    if not weights:
        return "", (f"the GGUF format {word} is not modelled: say `weights` for the nearest one",)
    if word.lower() not in (word_of(weights).lower(), weights):
        return weights, (f"the GGUF format {word} is counted as {weights}",)
    return weights, ()


def divided(stem: str) -> tuple[str, str]:
    """Network and format that the name of a file says; the latter empty if it says none.

    >>> divided("Llama-3.1-8B-Q4_K_M"), divided("Llama-3.1-70B-Q8_0-00001-of-00002")
    (('Llama-3.1-8B', 'Q4_K_M'), ('Llama-3.1-70B', 'Q8_0'))
    """
    stem = _SHARD.sub("", stem)
    found = _STORED.search(stem)
    return (stem[: found.start()], found["word"]) if found else (stem, "")
