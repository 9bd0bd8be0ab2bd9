"""Targets with what drafts for them, priced."""

from functools import cache
from typing import Any, Final

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.serving import drafts
from roofline.serving.acceptance import Acceptance, parse
from roofline.serving.draft_trees import chain
from roofline.serving.drafts import Draft
from roofline.serving.rounds import sheet
from roofline.serving.speculative import Speculation, speculate
from roofline.serving.workload import Workload
from tests.serving.deployments import on

WORK: Final = Workload(8, 512, 12)
TOGETHER: Final = Layout(tp=8, ep=8)
KINDS: Final = ("model", "mtp", "eagle", "medusa", "ngram")


def deepseek(layout: Layout = TOGETHER) -> Deployment:
    return on("deepseek-v3", layout=layout, node="hgx-h200-8", weights="fp8")


@cache
def target(kind: str = "model") -> Deployment:
    return deepseek() if kind == "mtp" else on("llama-3.1-8b")


@cache
def drafted(kind: str) -> Draft:
    if kind == "model":
        return drafts.model(on("llama-3.2-1b"))
    return drafts.named(kind, target(kind))  # type: ignore[arg-type]


def made(kind: str = "model", acceptance: str = "0.7", **asked: Any) -> Speculation:
    work = asked.pop("work", WORK)
    asked = asked or {"length": 3}
    return speculate(target(kind), drafted(kind), parse(acceptance), work, **asked)


def alike(rate: float) -> Acceptance:
    return Acceptance(((rate,),))


def gain(
    draft: Draft,
    deployment: Deployment,
    rate: float,
    length: int,
    batch: int,
    work: Workload = WORK,
) -> float:
    trees, batches = [chain(alike(rate), length)], np.array([float(batch)])
    return sheet(draft, deployment, work, trees, batches).round().speed_up
