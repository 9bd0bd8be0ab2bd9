"""Command lines of the project that ask about a deployment that an answer names."""

import shlex
from collections.abc import Mapping
from typing import Any


def command_line(question: str, network: str, options: Mapping[str, Any]) -> str:
    """Command that asks a question about a network, to be copied.

    Options are by name; those that are None or empty are left out, those that are True have no
    value.

    Examples:
        >>> command_line("simulate", "llama-3.1-8b", {"gpus": 2, "kv": "", "no_cuda_graphs": True})
        'roofline simulate llama-3.1-8b --gpus 2 --no-cuda-graphs'
    """
    words = ["roofline", question, network]
    for name, value in options.items():
        if value is not None and value != "":
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(words)
