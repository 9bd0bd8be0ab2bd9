"""Handing the cache of a prompt from the devices that prefilled it to those that decode.

A prompt lies on the tensor- and context-parallel devices of one group, in every stage of the
pipeline. Each of them sends, or receives, its part over wires of its own. What several devices
hold alike (key/value heads where there are fewer than devices, latents) is sent once, in equal
parts; copies inside the receiving instance go over its own link and are left out.
"""

import math
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.layout import SINGLE, Stage, pipeline
from roofline.cost.memory import kept, kv_bytes_per_sequence
from roofline.errors import LayoutError
from roofline.records import replace

Wires = Literal["network", "link"]
SOFTWARE_SD: Final = 0.5
"""Log standard deviation of the software of a hand-over: SGLang's on seven devices and lengths."""


def slower(deviations: float) -> float:
    """Factor on the software of a hand-over, so many deviations from its median. [1]"""
    return math.exp(SOFTWARE_SD * deviations)


class Side(Struct, frozen=True):
    """Links of one instance, and their traffic for a prompt."""

    sharing: int
    """Devices that each send or receive a part of a prompt's cache. [1]"""
    groups: int
    """Groups of them that do so with prompts of their own. [1]"""
    busiest_bytes: float
    """Part of a prompt's cache that passes the busiest of them. [B]"""
    bytes_per_s: float
    latency_s: float
    """Rate and latency of a device's link, in one direction. [B/s] [s]"""

    def seconds(self, prompts: int) -> float:
        """Caches of prompts that are handed over together: ⌈prompts / groups⌉ · M / W. [s]"""
        return -(-prompts // self.groups) * self.busiest_bytes / self.bytes_per_s

    @property
    def cache_s(self) -> float:
        """Seconds of the instance's wires for each cache, one after the other. [s]"""
        return self.busiest_bytes / self.bytes_per_s / self.groups


class KvTransfer(Struct, frozen=True):
    """Hand-over from a prefill instance to a decode instance."""

    prompt_bytes: float
    """Cache of a prompt, all layers, each part once. [B]"""
    together: int
    """Prompts of a prefill step, which are handed over together to one instance. [1]"""
    layers: float
    """Layers of a stage of the prefill instance that keep something. [1]"""
    send: Side
    receive: Side
    """The two ends."""
    wires: Wires
    """``"network"``, or ``"link"`` inside a node."""
    software_s: float = 0.0
    """Intake of the decode instance, and its engine's work for a hand-over before bytes go. [s]"""

    def within(self, deviations: float) -> "KvTransfer":
        """The same with software that takes so many deviations longer. [1]"""
        return replace(self, software_s=self.software_s * slower(deviations))

    @property
    def latency_s(self) -> float:
        """Until the first byte arrives: software, and α of the slower end. [s]"""
        return self.software_s + max(self.send.latency_s, self.receive.latency_s)

    @property
    def seconds(self) -> float:
        """All of it, over the slower end: α + ⌈prompts / groups⌉ · M / W. [s]"""
        ends = (self.send, self.receive)
        return self.latency_s + max(end.seconds(self.together) for end in ends)

    def exposed(self, stage_s: float) -> float:
        """Wait that is left where every layer is sent as soon as it is computed. [s]

        With c seconds to compute and x to send each of L layers: α + x + (L − 1)·max(x − c, 0).
        Source: flow shop of two machines and equal jobs; Splitwise, Patel et al. 2024
        (arXiv 2311.18677), for sending by layer.

        Args:
            stage_s: Prefill of a stage, during which its layers are sent. [s]
        """
        sent = (self.seconds - self.latency_s) / self.layers
        computed = stage_s / self.layers
        return self.latency_s + sent + (self.layers - 1.0) * max(sent - computed, 0.0)


def prompt_bytes(deployment: Deployment, prompt: float, stage: Stage | None = None) -> float:
    """Cache of a prompt, each part once, on however many devices it lies. [B]

    Keys, values, latents, indices, and the states of recurrent layers; of a window what it still
    sees. Source: `kv_bytes_per_sequence` on a single device; DistServe, Zhong et al. 2024
    (arXiv 2401.09670), communication overhead: 1.13 GB for 512 tokens of OPT-66B.

    Args:
        deployment: Network and formats.
        prompt: Tokens, those of a cached prefix included: the other side may not have it. [token]
        stage: Stage of the pipeline; None for all layers.
    """
    alone = replace(deployment, layout=SINGLE)
    return float(kv_bytes_per_sequence(alone, prompt, stage=stage))


def transfer(
    prefill: Deployment, decode: Deployment, prompt: int, together: int, wires: Wires
) -> KvTransfer:
    """Hand-over between instances of two layouts; LayoutError where the node has no such wires.

    Prompts have so many tokens [token], and a prefill step so many of them. [1]
    """
    alone = replace(prefill, layout=SINGLE)
    kinds = prefill.architecture.kinds.items()
    keeping = sum(n for block, n in kinds if float(kept(alone, block, float(prompt)).value))
    return KvTransfer(
        prompt_bytes=prompt_bytes(prefill, float(prompt)),
        together=together,
        layers=max(keeping / prefill.layout.pp, 1.0),
        send=_side(prefill, prompt, wires),
        receive=_side(decode, prompt, wires),
        wires=wires,
        software_s=software_s(decode),
    )


def software_s(decode: Deployment) -> float:
    """Intake of a decode instance and software of a hand-over; none at published rates. [s]"""
    if decode.calibration is None:
        return 0.0
    return decode.engine_costs.request_s + decode.engine.handover_s


def _side(deployment: Deployment, prompt: int, wires: Wires) -> Side:
    layout, node = deployment.layout, deployment.node
    sharing = int(layout.tp * layout.cp)
    stages = pipeline(deployment.architecture, layout, node)
    rate, latency = _wires(deployment, wires)
    return Side(
        sharing=sharing * layout.pp,
        groups=int(layout.dp),
        busiest_bytes=max(prompt_bytes(deployment, float(prompt), s) for s in stages) / sharing,
        bytes_per_s=rate,
        latency_s=latency,
    )


def _wires(deployment: Deployment, wires: Wires) -> tuple[float, float]:
    """Rate and latency of a device's wires; on a mesh, of the one wire to its opposite number."""
    node = deployment.node
    link = node.network if wires == "network" else node.link
    if link is None:
        other = "a node whose file states its network"
        if wires == "network" and node.link is not None:
            other += f", or hand over inside one node (`over=link`, up to {node.gpus} devices)"
        raise LayoutError(
            f"{node.name} has no {wires} to hand the cache over",
            hint=f"use {other}" if wires == "network" else "use `over` network",
        )
    if wires == "network":
        return link.rate_between_nodes, link.latency_s
    opposite = np.maximum(node.gpus - 1, 1) if link.topology == "mesh" else 1
    return link.bytes_per_s / float(opposite), link.latency_s
