"""Pictures and sound encoded on instances of their own, before their prompts are prefilled.

An encode instance runs the towers over what a prompt has beside its text; what comes out, a vector
for each token of the decoder, goes over the network to a prefill instance, whose own tower stands
still. Encoding and prefill of one prompt do not overlap.

Source: EPD disaggregation, Singh et al. 2025 (arXiv 2501.05460), for the stage and what it sends.
"""

import math

from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.errors import InputError, LayoutError
from roofline.model.tower import TEXT_ALONE
from roofline.records import replace
from roofline.serving.disaggregated import PoolPair
from roofline.serving.price import usd_per_mtok
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from roofline.table import Table, table
from roofline.units import counted, show, significant


class Encoders(Struct, frozen=True):
    """Instances that encode beside two pools."""

    deployment: Deployment
    """An instance, with the pictures and recordings of a prompt."""
    tokens: int
    """Tokens of the decoder that they become. [token]"""
    encode_s: float
    """Step that encodes what one prompt has. [s]"""
    sent_bytes: float
    """Vectors that it sends: one for each of those tokens. [B]"""
    send_s: float
    """Until they are at the prefill instance. [s]"""
    instances: int
    """Instances that keep up with both pools. [1]"""
    inside_s: float
    """Prefill of a prompt, on an instance that encodes its pictures, too. [s]"""

    @property
    def prompts_per_s(self) -> float:
        """Prompts that an instance encodes, one after the other: 1 / max(encode, send). [1/s]"""
        return 1.0 / max(self.encode_s, self.send_s)

    @property
    def gpus(self) -> int:
        """Devices of all of them. [1]"""
        return self.instances * self.deployment.devices


def encode_step(deployment: Deployment, workload: Workload) -> tuple[float, float]:
    """Step that encodes pictures and sound of a prompt, and a prefill that does so, too. [s] [s]

    What the tower adds to a prefill, with what the engine adds to a step with prompts.

    Args:
        deployment: An instance whose options have pictures or recordings.
        workload: Lengths, tokens of pictures and sound among those of the prompt.
    """
    alone = replace(workload, batch=1, output=1, prefill_batch=0)
    text = replace(deployment, options=replace(deployment.options, media=TEXT_ALONE))
    both, bare = (static_batch(each, alone).ttft_s for each in (deployment, text))
    return both - bare + deployment.engine_costs.prefill_step_s, both


def sending(deployment: Deployment, *others: Deployment) -> tuple[float, float]:
    """Vectors of what a prompt has beside its text, and the time until they are elsewhere. [B] [s]

    Args:
        deployment: An encode instance, whose options have the pictures and recordings.
        others: Instances that they may go to; the slowest network counts.

    Raises:
        InputError: Nothing becomes tokens in a tower.
        LayoutError: A node has no network.
    """
    tokens = deployment.architecture.media_tokens(deployment.options.media)
    if not tokens:
        raise InputError(
            "a pool that encodes no pictures and no sound that become tokens",
            hint="give `images` or `recordings`, or no pool that encodes",
        )
    known = []
    for node in (each.node for each in (deployment, *others)):
        if node.network is None:
            raise LayoutError(
                f"{node.name} has no network to send encoded pictures over",
                hint="use a node whose file states its network",
            )
        known.append(node.network)
    sent = float(tokens * deployment.architecture.d_model) * deployment.precision.activations.width
    rate = min(each.rate_between_nodes for each in known)
    return sent, max(each.latency_s for each in known) + sent / rate


def encoders(
    deployment: Deployment, prefill: Deployment, pools: PoolPair, requests_per_s: float
) -> Encoders:
    """Instances that encode as many prompts as both pools serve.

    Args:
        deployment: An encode instance, whose options have the pictures and recordings.
        prefill: A prefill instance, whose options have none.
        pools: Both pools.
        requests_per_s: Prompts that both serve. [1/s]

    Raises:
        InputError: Nothing becomes tokens in a tower.
        LayoutError: A node has no network.
    """
    tokens = deployment.architecture.media_tokens(deployment.options.media)
    sent, send_s = sending(deployment, prefill)
    encode_s, _ = encode_step(deployment, pools.decode.workload)
    _, inside_s = encode_step(replace(prefill, options=deployment.options), pools.decode.workload)
    made = Encoders(deployment, tokens, encode_s, sent, send_s, 1, inside_s)
    number = math.ceil(requests_per_s / made.prompts_per_s * (1.0 - 2.0**-40))
    return replace(made, instances=max(number, 1))


def tabulated(found: Encoders, pools: PoolPair) -> Table:
    """The encode pool, and TTFT and price with it and with the tower in the prefill pool."""
    phases = pools.overlap
    apart = found.encode_s + found.send_s + phases.ttft_s
    encode_s = found.inside_s - phases.prefill_s
    together = encode_s + phases.prompt_s
    rate = pools.split.requests_per_s(phases)
    inside = min(pools.split.prefill / together, pools.split.decode * phases.answers_per_s)
    own = found.instances * found.deployment.usd_per_hour
    hourly = pools.usd_per_hour + own if pools.usd_per_hour and own else 0.0
    rows = [
        {
            "where": "a pool of its own",
            "layout": found.deployment.layout.spelled,
            "instances": found.instances,
            "encode_s": found.encode_s,
            "send_s": found.send_s,
            "ttft_s": apart,
            "requests_per_s": rate,
            "gpus": pools.used + found.gpus,
            "usd_per_mtok": _price(hourly, rate, pools),
        },
        {
            "where": "in the prefill pool",
            "layout": pools.prefill.deployment.layout.spelled,
            "instances": pools.split.prefill,
            "encode_s": encode_s,
            "send_s": 0.0,
            "ttft_s": encode_s + phases.ttft_s,
            "requests_per_s": inside,
            "gpus": pools.used,
            "usd_per_mtok": _price(pools.usd_per_hour, inside, pools),
        },
    ]
    units = dict.fromkeys(("encode_s", "send_s", "ttft_s"), "s")
    return table(rows, {**units, "requests_per_s": "request/s", "usd_per_mtok": "$"})


def _price(usd_per_hour: float, rate: float, pools: PoolPair) -> float | None:
    """Price of a million output tokens; None where a device has none. [$]"""
    return usd_per_mtok(usd_per_hour, 1.0, rate * pools.overlap.output) or None


def said(found: Encoders, pools: PoolPair) -> tuple[str, ...]:
    """Sentences on the encode pool."""
    apart, inside = tabulated(found, pools).rows()
    dearer = ""
    if apart["usd_per_mtok"] and inside["usd_per_mtok"]:
        change = apart["usd_per_mtok"] / inside["usd_per_mtok"] - 1.0
        dearer = f", {abs(change):.0%} {'more' if change > 0 else 'less'} a token than there"
    return (
        f"{counted(found.instances, 'encode instance')} ({found.deployment.layout}) beside them: "
        f"pictures and sound of a prompt, {found.tokens:,} tokens, take "
        f"{show(found.encode_s, 's')}, and {show(found.sent_bytes, 'B')} go to the prefill in "
        f"{show(found.send_s, 's')}. With that TTFT is {show(apart['ttft_s'], 's')}; "
        f"with the tower in the prefill pool it is {show(inside['ttft_s'], 's')} and the "
        f"pools serve {significant(inside['requests_per_s'])} of "
        f"{significant(apart['requests_per_s'])} requests/s{dearer}. Figures below are "
        "from the start of the prefill.",
    )
