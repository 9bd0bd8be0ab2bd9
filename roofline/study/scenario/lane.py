"""A lane of a grid: what all its points have in common, made of its names."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofline.cost.deployment import Deployment
from roofline.serving.acceptance import Acceptance
from roofline.serving.drafts import Draft
from roofline.serving.traffic.traffic import Traffic
from roofline.study.grid import Name
from roofline.study.scenario.scenario import PLAIN, Technique


@dataclass(frozen=True, slots=True)
class Drafting:
    """Who drafts, how often it is right, how many tokens in a row."""

    draft: Draft
    acceptance: Acceptance
    length: int


@dataclass(frozen=True, slots=True)
class Lane:
    """What the points of a lane are priced on."""

    labels: Mapping[str, Name]
    """Its columns of names, as resolved: formats, degrees, node."""
    deployment: Deployment | None = None
    """None where there can be none."""
    technique: Technique = PLAIN
    """How batches are run."""
    drafting: Drafting | None = None
    prefill: Deployment | None = None
    """Of a technique that has them: what drafts, and an instance of the pool that prefills."""
    traffic: Traffic | None = None
    policy: str = ""
    misses: Mapping[str, float] = field(default_factory=dict)
    """Of a traffic scenario; and how far predictions of its engine were off end to end, log
    standard deviations by metric. [1]"""
    limit: str = ""
    reason: str = ""
    """What stands in the way of a deployment, in a word and a sentence."""

    @property
    def bounded(self) -> bool:
        """Whether its times are published rates: the least possible, and no forecast."""
        both = (self.deployment, self.prefill)
        return any(each is not None and each.calibration is None for each in both)

    @property
    def simple(self) -> bool:
        """Whether it is one batch on one deployment, the same for every point."""
        return self.technique.simple
