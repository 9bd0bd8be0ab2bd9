"""Published closed forms of what comes and goes while a server keeps its batch full."""

from roofline.cost.work import Number


def evicted_tokens(batch: Number, prompt: Number, generated: Number) -> Number:
    """Cached tokens that leave with the answers that end in a decode step: B·(P + G)/G. [token]

    A sequence stays for G steps, so that B/G of them end in a step, each with P + G tokens.

    Source: How to Scale Your Model (2025), "Serving LLaMA 3-70B on TPUs".

    Args:
        batch: Sequences B decoded together. [1]
        prompt, generated: Lengths P and G of prompts and answers. [token]

    Examples:
        >>> evicted_tokens(8, prompt=300, generated=100)
        32.0
    """
    return 1.0 * batch * (prompt + generated) / generated
