"""Linear layer in single precision: ``Y[m, n] = X[m, k] · W[k, n]``.

Activations stay in the cache, as an engine leaves them there; weights are others every time, from
memory or from the last-level cache: whether a network's stay there is for its size to say. Widths
are those of small published networks.
"""

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work, gemm

WIDTH = 4
ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 23, 32, 64, 128, 256, 512, 1024, 2048)
"""Tokens; from a single one, through batches, to prompts."""
WIDTHS = (
    (2048, 2048),  # Llama 3.2 1B: query and output
    (512, 2048),  # its keys and values
    (8192, 2048),  # its gate and up
    (2048, 8192),  # its down
    (896, 896),  # Qwen2 0.5B, the same four
    (128, 896),
    (4864, 896),
    (896, 4864),
    (576, 576),  # SmolLM 135M
    (192, 576),
    (1536, 576),
    (576, 1536),
)


def arguments(make: Maker, at: Shape) -> dict[str, object]:
    """Activations, weights and result."""
    m, n, k = at["m"], at["n"], at["k"]
    return {"x": make.normal(m, k), "weight": make.normal(k, n), "out": make.empty(m, n)}


def launch(xp, x, weight, out):
    """One product."""
    xp.matmul(x, weight, out=out)


def work(at: Shape) -> Work:
    """Work as the cost model counts it."""
    return gemm(at["m"], at["n"], at["k"], weight_width=WIDTH, width=WIDTH)


def regime(at: Shape) -> str:
    """A vector, a few rows that share the weights' way, or a matrix that is bound by arithmetic."""
    return "vector" if at["m"] == 1 else "few" if at["m"] <= 32 else "many"


PROBE = Probe(
    name="gemm",
    version=2,
    kind="gemm",
    axes={"m": ROWS, "n k": WIDTHS},
    arguments=arguments,
    launch=launch,
    work=work,
    streamed=("weight",),
    states=("near", "cold"),
    regime=regime,
    arithmetic="fp32",
    backends=("numpy",),
)
