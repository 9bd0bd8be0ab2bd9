"""Table of the operators of a network, and the probe of a GPU that measures each of them.

    python -m roofline.bench.operators llama-3.1-8b deepseek-v3:fp8-block

prints it as Markdown, of a prompt and of decoding on eight GPUs; a format of weights comes after a
colon.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from roofline.bench import arguments
from roofline.bench.prices import probe_of
from roofline.bench.probe import probes
from roofline.cost.calibration.by_kind import kernel_query
from roofline.cost.calibration.wires import library, payload_of
from roofline.cost.deployment import Deployment
from roofline.cost.step import decode, prefill, step
from roofline.cost.work import CONVERSION, CONVERSION_OF_EXPERTS, Op

TOKENS: Final = 2048
"""Length of the prompt, and of the context before a token that is decoded. [token]"""
SEQUENCES: Final = 16
"""Batch of a decode step. [sequence]"""
ELSEWHERE: Final[Mapping[str, str]] = {
    "collective": "exchange between experts: the engine's own kernels, as shipped",
    "index": "choice of keys: at published rates",
    "host": "copies from the host: at published rates",
}
"""Why no probe has an operator of a kind that asks for no kernel."""
UNMEASURED: Final = "nothing like it was measured: at published rates"


def operators(deployment: Deployment) -> Iterator[tuple[str, str, str, str]]:
    """Phase and name, formats, kernel that is asked for, and its probe or why it has none."""
    known = {entry.probe.name: entry.probe.kind for entry in probes()}
    phases = {"prefill": prefill(1, TOKENS), "decode": decode(SEQUENCES, TOKENS)}
    for phase, group in phases.items():
        for op in step(deployment, group).values():
            formats = " ".join(sorted(set(op.formats.values())))
            kind, variants = _kernel(op, deployment)
            if op.kernel in (CONVERSION, CONVERSION_OF_EXPERTS):
                found = "part of the product"
            elif kind:
                found = probe_of(kind, variants, known)
            else:
                found = f"none: {ELSEWHERE.get(op.kind, UNMEASURED)}"
            yield f"{phase} {op.name}", formats, f"{kind} {' or '.join(variants)}".strip(), found


def _kernel(op: Op, deployment: Deployment) -> tuple[str, tuple[str, ...]]:
    """Kind and variants of the kernel that an operator asks for; empty where it asks for none."""
    if op.kind == "collective":
        payload = payload_of(op)
        if payload is None:
            return "", ()
        *_, (_, variant, _) = library(payload, deployment.engine.name)
        return op.kind, (variant,)
    query = kernel_query(op, deployment.node.gpu)
    return ("", ()) if query is None else (query.kind, query.variants)


def table(names: list[str], gpu: str = "h100-sxm") -> str:
    """Operators of some networks on eight devices as Markdown; formats of weights after colons."""
    from roofline.bench.end_to_end.cases import Case
    from roofline.bench.end_to_end.deploying import deployment
    from roofline.cost.layout import Layout

    lines = ["| network | operator | formats | kernel | probe |", "|---|---|---|---|---|"]
    for name in names:
        network, _, weights = name.partition(":")
        case = Case(network, gpu, weights or "checkpoint", "", "auto", Layout(tp=8), "vllm")
        lines += [f"| {' | '.join((name, *row))} |" for row in operators(deployment(case))]
    return "\n".join(lines)


if __name__ == "__main__":
    asked = arguments.parser("roofline.bench.operators", __doc__)
    asked.add_argument("networks", nargs="+", help="NETWORK or NETWORK:FORMAT of its weights")
    given = asked.parse_args()
    arguments.answer(asked, lambda: sys.stdout.write(table(given.networks) + "\n"))
