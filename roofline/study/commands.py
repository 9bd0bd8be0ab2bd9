"""Command lines that reproduce an answer about a deployment."""

import shlex
from collections.abc import Mapping
from typing import Any


def command_line(question: str, network: str, options: Mapping[str, Any]) -> str:
    """Command line of a question about a network, quoted for a shell.

    Options that are None or empty are left out; an option that is True has no value.

    Examples:
        >>> command_line("simulate", "llama-3.1-8b", {"gpus": 2, "kv": "", "no_cuda_graphs": True})
        'roofline simulate llama-3.1-8b --gpus 2 --no-cuda-graphs'
    """
    words = ["roofline", question, network]
    for name, value in options.items():
        if value is not None and value != "":
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(words)
