"""Lanes made of their names: network, machine, layout, formats, technique."""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from roofline.api.setting import make_deployment, priced, roomiest
from roofline.api.speculation import draft_of, rates_of
from roofline.bench.engine_profiles import engine_misses
from roofline.cost.deployment import Deployment, Options
from roofline.cost.layout import Layout, parse
from roofline.errors import LayoutError, MissingRateError, RooflineError
from roofline.hardware import catalog as hardware
from roofline.hardware.engine import engine_on
from roofline.hardware.machine import Gpu, Node
from roofline.hardware.serving_engine import Engine
from roofline.model import catalog as networks
from roofline.model.architecture import Architecture
from roofline.model.changes import settings
from roofline.records import replace
from roofline.serving.workload import Workload
from roofline.study.choice import choose
from roofline.study.grid import Name
from roofline.study.layouts import candidates, one_by_one
from roofline.study.rows import DEGREES
from roofline.study.scenario.scenario import (
    AUTO,
    DraftAxis,
    LayoutsOnGpus,
    Patch,
    Scenario,
    SliceDeployment,
    Technique,
)


class ScenarioLanes(Struct, frozen=True):
    """Lanes of a scenario by their names; can be sent to another process."""

    scenario: Scenario

    def __call__(self, names: Mapping[str, Name]) -> SliceDeployment:
        """Lane with its deployment; where there can be none, with the reason."""
        named = {name: str(value) for name, value in names.items()}
        patch = next(each for each in self.scenario.patches if each.name == named["patch"])
        for key in ("weights", "kv", "engine", "layout"):
            named[key] = getattr(patch, key) or named[key]
        technique = patch.technique or next(
            each for each in self.scenario.techniques if each.name == named["technique"]
        )
        loads = (each for each in self.scenario.workloads if each.name == named["workload"])
        layout = parse(named["layout"])
        lane = SliceDeployment(
            labels=self._labels(named, layout, patch, technique),
            technique=technique,
            traffic=next(loads, None),
            policy=named.get("policy", ""),
        )
        try:
            return self._deployed(lane, named, layout, patch)
        except RooflineError as error:
            limit = "layout" if isinstance(error, LayoutError) else "deployment"
            limit = "format" if isinstance(error, MissingRateError) else limit
            return replace(lane, limit=limit, reason=f"{error.message}; {error.hint}")

    def _labels(
        self, named: Mapping[str, str], layout: Layout, patch: Patch, technique: Technique
    ) -> dict[str, Name]:
        """Columns of names, as far as they are known before anything is looked up."""
        out: dict[str, Name] = {
            "model": named["model"],
            "gpu": named["machine"],
            "node": named["machine"] if self.scenario.nodes else "",
            "gpus": int(layout.devices),
            "layout": named["layout"],
            **{name: int(getattr(layout, name)) for name in DEGREES},
            "weights": named["weights"],
            "kv": named["kv"],
            "engine": named["engine"],
            "technique": technique.name,
        }
        if len(self.scenario.patches) > 1:
            out["patch"] = patch.name
        if self.scenario.kind == "traffic":
            del out["technique"]
            out |= {"workload": named["workload"], "policy": named["policy"]}
        return out

    def _deployed(
        self, lane: SliceDeployment, named: Mapping[str, str], layout: Layout, patch: Patch
    ) -> SliceDeployment:
        gpu, box = self.machine(named["machine"], patch)
        network, kv = self.network(named["model"], gpu, named, patch)
        technique = lane.technique

        def on(device: Gpu, where: Node | None, arranged: Layout) -> Deployment:
            return make_deployment(
                network,
                device,
                where,
                arranged,
                kv=kv,
                engine=named["engine"],
                options=Options(
                    overlap=technique.overlap,
                    two_batch=technique.two_batch,
                    routing=technique.routing,
                    cuda_graphs=technique.cuda_graphs,
                    sampling=technique.sampling,
                    lora=technique.lora,
                ),
                offload=technique.offload,
                calibration=self.scenario.calibration,
            )

        target = on(gpu, box, layout)
        labels = {
            **lane.labels,
            "gpu": gpu.name,
            "node": target.node.name,
            "weights": target.weights_name,
            "kv": target.precision.kv.name,
        }
        drafting = pool = None
        if (asked := technique.speculation) is not None:
            if layout.pp != 1 or layout.cp != 1:
                raise LayoutError(
                    f"speculative decoding under {layout} is not priced",
                    hint="use tensor, expert and attention data parallelism",
                )
            draft = draft_of(asked.draft, target, asked.weights, None, self.scenario.calibration)
            drafting = DraftAxis(
                draft, rates_of(asked.acceptance, asked.acceptance_spread), asked.length
            )
        if (pools := technique.disaggregation) is not None:
            other, where = gpu, box
            if pools.gpu:
                other, where = self._priced(hardware.gpu(pools.gpu), pools.gpu, patch), None
            pool = on(other, where, parse(pools.prefill))
        misses = engine_misses(target) if lane.traffic and target.calibration else {}
        return replace(
            lane, labels=labels, deployment=target, drafting=drafting, prefill=pool, misses=misses
        )

    def machine(self, name: str, patch: Patch) -> tuple[Gpu, Node | None]:
        """GPU, and the node where the scenario names nodes; at the scenario's price."""
        if not self.scenario.nodes:
            return self._priced(hardware.gpu(name), name, patch), None
        box = hardware.node(name)
        gpu = self._priced(box.gpu, name, patch)
        return gpu, replace(box, gpu=gpu)

    def _priced(self, gpu: Gpu, name: str, patch: Patch) -> Gpu:
        price = patch.usd_per_hour
        if price is None:
            price = self.scenario.prices.get(name)
        gpu = gpu if price is None else priced(gpu, price)
        if patch.memory_bytes is not None:
            gpu = replace(gpu, memory_bytes=patch.memory_bytes, nominal_bytes=patch.memory_bytes)
        if patch.hbm_bytes_per_s is not None:
            gpu = replace(gpu, hbm_bytes_per_s=patch.hbm_bytes_per_s)
        return gpu

    def network(
        self, name: str, gpu: Gpu, named: Mapping[str, str], patch: Patch
    ) -> tuple[Architecture, str]:
        """Network as it is loaded, and the format of its cache."""
        asked = next(each for each in self.scenario.models if each.name == name)
        weights = "" if named["weights"] == AUTO else named["weights"]
        base = networks.architecture(asked.model)
        setup = settings.setup_of(base, gpu, weights=weights, kv=named["kv"])
        for changes in (asked.changes, patch.changes):
            if changes:
                setup = settings.apply(setup, settings.parse(changes))
        return setup.network, setup.kv_format

    def found(self, model: str, machine: str, every: LayoutsOnGpus) -> tuple[str, ...]:
        """Layouts of a network on a machine: every one, or the best of so many GPUs each.

        LayoutError where there is none.
        """
        patch = self.scenario.patches[0]
        named = {"weights": self.scenario.weights[0], "kv": self.scenario.kv[0]}
        gpu, box = self.machine(machine, patch)
        network, kv = self.network(model, gpu, named, patch)
        out: list[str] = []
        for count in every.gpus:
            try:
                where = box or roomiest(gpu, count)
                if every.choose:
                    base = make_deployment(
                        network,
                        gpu,
                        where,
                        kv=kv,
                        engine=self.scenario.engines[0],
                        calibration=self.scenario.calibration,
                    )
                    out.append(choose(base, self._middle(), count, every.choose).layout.spelled)
                else:
                    for engine in self.scenario.engines:
                        runs = engine_on(engine, gpu.architecture)
                        out += _possible(network, where, count, runs)
            except LayoutError:
                continue
        if not out:
            counts = ", ".join(map(str, every.gpus))
            raise LayoutError(
                f"{model} has no layout on {counts} × {machine}",
                hint="give other numbers of GPUs under layouts:",
            )
        return tuple(dict.fromkeys(out))

    def _middle(self) -> Workload:
        """The point in the middle of all axes, which stands for them where a layout is chosen."""
        if self.scenario.kind == "traffic":
            return Workload()
        middle = {
            name: int(series.at(np.array([len(series) // 2]))[0])
            for name, series in self.scenario.numbers.items()
        }
        return Workload(middle["batch"], middle["prompt"], middle["output"])


def _possible(network: Architecture, node: Node, gpus: int, engine: Engine) -> list[str]:
    """Every layout of exactly so many devices, as they are spelled, but for the split of norms."""
    groups = candidates(network, node, gpus, Options(), engine)
    every = (each for group in groups if not group.sequence_parallel for each in one_by_one(group))
    return [layout.spelled for layout in every if layout.devices == gpus]
