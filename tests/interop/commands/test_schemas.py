"""Manifests hold by the schemas that Kubernetes, Ray and Dynamo publish themselves."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from roofline.cost.layout import Layout
from roofline.interop.commands import targets
from roofline.interop.commands.pins import PINS, Package
from roofline.interop.commands.served import PrefillServers, ReplicaServer
from roofline.records import replace
from tests.interop.commands.packages import files_of
from tests.interop.commands.serving import SITE

SCHEMAS = "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict/"
KUBERNETES = Package("kubernetes-validate", "1.37.0", (SCHEMAS,))
DYNAMO = Package(
    "ai-dynamo",
    next(pin.package.release for pin in PINS if pin.target == "dynamo" and pin.package),
    ("dynamo/profiler/templates/dgd/",),
)
KINDS = {
    "Deployment": "deployment-apps-v1",
    "Service": "service-v1",
    "ConfigMap": "configmap-v1",
    "pod": "podtemplatespec-v1",
}
CHARTED = ("modelCommand", "mountModelVolume")
"""Keys of llm-d's containers that its chart takes out before Kubernetes sees them."""
PLAIN = ReplicaServer("vllm", "org/model", max_sequences=8, replicas=2)


def errors(kind: str, document: Any) -> list[str]:
    """Errors of an object of a kind by Kubernetes' strict schema."""
    files = files_of(KUBERNETES)
    shared = Resource.from_contents(
        json.loads(files[f"{SCHEMAS}_definitions.json"]), default_specification=DRAFT202012
    )
    registry: Registry[Any] = Registry().with_resource("/api/_definitions.json", shared)
    schema = json.loads(files[f"{SCHEMAS}{KINDS[kind]}.json"])
    validator = jsonschema.Draft202012Validator(schema, registry=registry)
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(document)]


def written(target: str, served: ReplicaServer, before: PrefillServers | None = None) -> list[Any]:
    (text,) = targets.write(target, served, SITE, before).files.values()
    return list(yaml.safe_load_all(text))


def split(served: ReplicaServer) -> PrefillServers:
    return PrefillServers(replace(served, layout=Layout(tp=2), replicas=3), SITE)


@pytest.mark.slow
@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize("engine", targets.ENGINES)
def test_kubernetes_takes_every_object(engine: str, tp: int) -> None:
    served = replace(PLAIN, engine=engine, kv="fp8", layout=Layout(tp=tp))
    objects = written("k8s", served)
    assert {each["kind"] for each in objects} >= {"Deployment", "Service"}
    for each in objects:
        assert errors(each["kind"], each) == []


@pytest.mark.slow
def test_the_schema_of_kubernetes_refuses_what_is_wrong() -> None:
    (deployment,) = (each for each in written("k8s", PLAIN) if each["kind"] == "Deployment")
    deployment["spec"]["replicas"] = "two"
    deployment["spec"]["template"]["spec"]["containers"][0]["gpus"] = 1
    assert len(errors("Deployment", deployment)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_dynamo_has_pods_of_kubernetes_and_keys_of_its_own_graphs(engine: str) -> None:
    known: set[tuple[str, ...]] = {("spec", "components", "[]", "podTemplate")}
    kinds: set[str] = set()
    for text in files_of(DYNAMO).values():
        graph = yaml.safe_load(text)
        assert (graph["apiVersion"], graph["kind"]) == (
            "nvidia.com/v1beta1", "DynamoGraphDeployment",
        )  # fmt: skip
        known |= set(paths(graph))
        kinds |= {component["type"] for component in graph["spec"]["components"]}
    assert {"frontend", "worker", "prefill", "decode"} <= kinds
    served = replace(PLAIN, engine=engine, layout=Layout(tp=4))
    for before in (None, split(served)):
        (graph,) = written("dynamo", served, before)
        assert set(paths(graph)) <= known
        for component in graph["spec"]["components"]:
            assert component["type"] in kinds
            # A pod's labels are the operator's.
            assert errors("pod", component["podTemplate"]) == []


def paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Keys of a graph, each with those around it, down to the pods, which are Kubernetes'."""
    if path[-1:] == ("podTemplate",):
        yield path
    elif isinstance(value, dict):
        for key, inside in value.items():
            yield (*path, key)
            yield from paths(inside, (*path, key))
    elif isinstance(value, list):
        for inside in value:
            yield from paths(inside, (*path, "[]"))


@pytest.mark.slow
@pytest.mark.parametrize("pools", [False, True])
def test_containers_of_llm_d_are_those_of_kubernetes_but_for_its_chart(pools: bool) -> None:
    served = replace(PLAIN, layout=Layout(tp=4, pp=2))
    (values,) = written("llm-d", served, split(served) if pools else None)
    sides = [values[side] for side in ("decode", "prefill") if values[side]["create"]]
    assert len(sides) == 1 + pools
    for side in sides:
        containers = [
            {key: value for key, value in each.items() if key not in CHARTED}
            for each in side["containers"]
        ]
        assert errors("pod", {"spec": {"containers": containers}}) == []


@pytest.mark.parametrize("layout", [Layout(tp=2), Layout(dp=4, ep=4)])
def test_ray_serve_takes_its_configuration(layout: Layout) -> None:
    schema = pytest.importorskip(
        "ray.serve.schema", reason="NOT CHECKED: pip install 'ray[serve]'", exc_type=ImportError
    )
    (config,) = written("ray-serve", replace(PLAIN, layout=layout))
    taken = schema.ServeDeploySchema.model_validate(config)
    assert taken.applications[0].import_path.startswith("ray.serve.llm:build_")
    with pytest.raises(ValueError, match="import_path"):
        schema.ServeDeploySchema.model_validate({"applications": [{"name": "llm"}]})
