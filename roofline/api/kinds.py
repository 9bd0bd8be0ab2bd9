"""Kinds of deployment that a plan chooses among."""

from collections.abc import Mapping
from itertools import product

from msgspec import Struct

from roofline.api import setting
from roofline.api.parameters import Planning
from roofline.api.speculation import draft_of
from roofline.bench.engine_profiles import engine_misses, profile_source
from roofline.cost.deployment import Deployment, Options
from roofline.errors import MissingRateError, RooflineError
from roofline.hardware.machine import Gpu
from roofline.model.architecture import Architecture
from roofline.serving.diffusion import seeing_both_ways
from roofline.serving.drafts import Draft
from roofline.serving.facility import Facility
from roofline.serving.simulate.denoising import BlockDiffusion
from roofline.study.plan.candidate import DeploymentKind, PlannedDrafts, PriceUncertainty
from roofline.study.plan.hall import Ceiling


class Drafts(Struct, frozen=True):
    """Draft of any deployment of a plan."""

    draft: str | Architecture
    """Draft as it was asked for."""
    calibration: str
    """Calibration that prices it."""

    def __call__(self, target: Deployment) -> Draft:
        """The draft on a target's devices."""
        return draft_of(self.draft, target, None, None, self.calibration)


class Kinds(Struct, frozen=True):
    """Kinds of deployment that a plan chooses among, of each device, format and price."""

    asked: Planning
    network: Architecture
    options: Options
    devices: tuple[str | Gpu | None, ...]
    prices: tuple[float | None, ...]
    stores: tuple[str | None, ...]
    caches: tuple[str, ...]
    ceilings: Mapping[str, Ceiling]
    facility: Facility | None
    speculation: PlannedDrafts | None
    blocks: BlockDiffusion | None = None
    refused: list[str] = []
    """Reasons why some are left out, as they are met."""
    formats: dict[str, tuple[str | None, str]] = {}
    """Formats of weights and cache as they were asked for, by the name of a kind."""

    def __call__(self, most: int, narrower: str | None = None) -> tuple[DeploymentKind, ...]:
        """Kinds with room for so many devices, perhaps with narrower weights.

        Raises:
            MissingRateError: No device has rates for them.
        """
        asked, out = self.asked, list[DeploymentKind]()
        errors: list[RooflineError] = []
        for each, price in zip(self.devices, self.prices, strict=True):
            device, box = setting.machine_of(each, asked.node, price)
            setting.check_powered(self.facility, device)
            own = min(most, self.ceilings[device.name].gpus) if self.ceilings else most
            for stored, cache in product((narrower,) if narrower else self.stores, self.caches):
                try:
                    base = setting.make_deployment(
                        self.network,
                        device,
                        box or setting.roomiest(device, own),
                        weights=stored,
                        kv=cache,
                        engine=asked.engine,
                        options=self.options,
                        calibration=asked.calibration,
                    )
                except MissingRateError as error:
                    errors.append(error)
                    continue
                base = setting.profiled(base, asked.profile)
                if self.blocks is not None:
                    base = seeing_both_ways(base)
                if self.speculation is not None:
                    self.speculation.draft(base)  # that there can be none is told at once
                memory, sure = asked.memory_utilization, _uncertainty(base)
                kind = DeploymentKind(
                    base,
                    device.usd_per_hour,
                    memory,
                    sure,
                    self.speculation,
                    setting.cache_room("host_cache", asked.host_cache),
                    setting.cache_room("nvme_cache", asked.nvme_cache),
                    self.blocks,
                )
                self.formats[kind.name] = stored, cache
                out.append(kind)
        if not out:
            raise errors[0]
        self.refused.extend(f"Left out: {error.message}." for error in errors)
        return tuple({kind.name: kind for kind in out}.values())


def _uncertainty(base: Deployment) -> PriceUncertainty:
    """Errors of the engine's predictions where it was not fitted."""
    misses = engine_misses(base) if base.calibration is not None else {}
    if not misses:
        return PriceUncertainty()
    file = profile_source(base) or f"hwspecs/calibrations/engines/{base.engine.name}.yaml"
    source = f"{file}, spreads on groups left out"
    return PriceUncertainty(misses["tpot_s"], misses["ttft_s"], source)
