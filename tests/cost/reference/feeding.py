"""Feed-forward blocks: a second opinion that sends each token to its experts."""

from roofline.model.architecture import Mlp, Moe
from tests.cost.reference.elementary import Count, Setting, multiply, multiply_row
from tests.cost.reference.routing import expected_distinct


def count_dense(out: Count, mlp: Mlp, d: int, tokens: int, setting: Setting) -> None:
    inner = mlp.width // setting.tp
    wide = inner * (2 if mlp.gated else 1)
    bias = wide if mlp.up_bias else 0
    multiply(out, tokens, wide, d, setting.weights, setting, bias=bias)
    out.activation_bytes += tokens * (wide + inner) * setting.plain
    bias = d if mlp.down_bias else 0
    multiply(out, tokens, d, inner, setting.weights, setting, bias=bias)


def count_experts(out: Count, moe: Moe, d: int, tokens: int, setting: Setting) -> None:
    """Each token is sent to its experts one by one; a touched expert's matrices are read once."""
    width = setting.plain
    bias = moe.experts if moe.router_bias else 0
    multiply(out, tokens, moe.experts, d, width, setting, bias=bias)
    inner_d = moe.latent or d
    if moe.latent:
        multiply(out, tokens, moe.latent, d, setting.weights, setting)
        multiply(out, tokens, d, moe.latent, setting.weights, setting)
    if moe.shared_width:
        count_dense(out, Mlp(moe.shared_width, moe.gated), d, tokens, setting)
    if moe.shared_gate:
        multiply(out, tokens, 1, d, width, setting)
    inner = moe.width // setting.tp
    wide = inner * (2 if moe.gated else 1)
    for _ in range(tokens):
        for _ in range(moe.active):
            multiply_row(out, wide, inner_d, setting)
            out.activation_bytes += (wide + inner) * width
            multiply_row(out, inner_d, inner, setting)
            out.activation_bytes += inner_d * width  # to be added up
        out.activation_bytes += (d if moe.shared_width else 0) * width + inner_d * width
    biases = (wide if moe.up_bias else 0) + (inner_d if moe.down_bias else 0)
    one = (wide * inner_d + inner_d * inner) * setting.weights + biases * width
    out.weight_bytes += expected_distinct(tokens, moe.experts, moe.active) * one
