"""What names of GGUF files and llama.cpp's names of models say."""

import re
from typing import Final

_QUANT: Final = re.compile(
    r"[-_. ](I?Q\d(?:_K_[SML]|_K|_\d|_XXS|_XS|_NL|_S|_M)?|BF16|F16|F32|MXFP4)$", re.IGNORECASE
)
_SPLIT: Final = re.compile(r"-\d{5}-of-\d{5}$")
_SIZES: Final = {"small": "S", "medium": "M", "large": "L"}


def of_file(path: str) -> tuple[str, str]:
    """Model and number format by the name of a file.

    >>> of_file("models/Qwen2.5-7B-Instruct-Q4_K_M.gguf")
    ('Qwen2.5-7B-Instruct', 'Q4_K_M')
    """
    name = re.split(r"[\\/]", path)[-1]
    name = _SPLIT.sub("", re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE))
    found = _QUANT.search(name)
    return (name[: found.start()], found[1].upper()) if found else (name, "")


def of_type(name: str) -> str:
    """Number format in llama.cpp's name of a model.

    >>> of_type("llama 8B Q4_K - Medium"), of_type("llama 7B mostly Q8_0")
    ('Q4_K_M', 'Q8_0')
    """
    plain, _, size = name.partition(" - ")
    found = _QUANT.search(plain)
    if found is None:
        return ""
    letter = _SIZES.get(size.strip().lower(), "")
    return f"{found[1].upper()}{f'_{letter}' if letter else ''}"
