"""Manifests have what Kubernetes and Ray require of them."""

from typing import Any

import jsonschema
import pytest
import yaml

from roofline.cost.layout import Layout
from roofline.errors import RooflineError
from roofline.hardware.catalog import gpu
from roofline.interop.commands import targets
from roofline.interop.commands.served import PrefillServers, ReplicaServer
from roofline.records import replace
from tests.interop.commands.serving import SITE, no_files, read_back

PLAIN = ReplicaServer("vllm", "org/model", max_sequences=8)
REQUIRED: dict[str, tuple[str, ...]] = {
    "ConfigMap": ("apiVersion", "kind", "metadata", "data"),
    "Deployment": ("apiVersion", "kind", "metadata", "spec"),
    "Service": ("apiVersion", "kind", "metadata", "spec"),
}


def manifests(served: ReplicaServer, vendor: str = "NVIDIA", gpu: str = "other") -> dict[str, Any]:
    written = targets.write("k8s", served, replace(SITE, vendor=vendor, gpu=gpu))
    (text,) = written.files.values()
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def container(served: ReplicaServer, vendor: str = "NVIDIA", gpu: str = "other") -> dict[str, Any]:
    (only,) = manifests(served, vendor, gpu)["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize("engine", targets.ENGINES)
def test_objects_have_the_keys_that_kubernetes_requires(engine: str) -> None:
    made = manifests(replace(PLAIN, engine=engine, kv="fp8", layout=Layout(tp=2)))
    assert {"Deployment", "Service"} <= set(made) <= set(REQUIRED)
    for kind, document in made.items():
        assert tuple(document) == REQUIRED[kind]
        assert document["metadata"]["name"]
    spec = made["Deployment"]["spec"]
    labels = spec["selector"]["matchLabels"]
    assert labels == spec["template"]["metadata"]["labels"]
    assert labels == made["Service"]["spec"]["selector"]
    (server,) = spec["template"]["spec"]["containers"]
    assert {"name", "image", "command", "ports", "resources", "readinessProbe"} <= set(server)
    named = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert named == {"http": 8000}
    assert made["Service"]["spec"]["ports"][0]["targetPort"] in named
    assert all(isinstance(word, str) for word in server["command"])
    # A pod is reached from outside: every server listens on all addresses of it.
    command = server["command"]
    assert command[command.index("--host") + 1] == "0.0.0.0"
    mounted = {mount["name"] for mount in server.get("volumeMounts", [])}
    assert mounted == {volume["name"] for volume in spec["template"]["spec"].get("volumes", [])}


@pytest.mark.parametrize(("tp", "shared"), [(1, False), (4, True)])
def test_devices_that_talk_share_memory_of_the_node(tp: int, shared: bool) -> None:
    served = replace(PLAIN, layout=Layout(tp=tp))
    server = container(served)
    volumes = manifests(served)["Deployment"]["spec"]["template"]["spec"].get("volumes", [])
    memory = [volume for volume in volumes if volume.get("emptyDir", {}).get("medium") == "Memory"]
    mounts = {mount["mountPath"]: mount["name"] for mount in server.get("volumeMounts", [])}
    assert bool(memory) == shared
    assert ("/dev/shm" in mounts) == shared
    if shared:
        assert mounts["/dev/shm"] == memory[0]["name"]


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("h100-sxm", "nvidia.com/gpu"),
        ("mi300x", "amd.com/gpu"),
        ("arc-pro-b60", "gpu.intel.com/xe"),
        ("gaudi3", "habana.ai/gaudi"),
        ("tpu-v5e", "google.com/tpu"),
    ],
)
def test_a_pod_asks_for_the_devices_of_a_replica(name: str, resource: str) -> None:
    vendor = gpu(name).vendor
    resources = container(replace(PLAIN, layout=Layout(tp=2, pp=3)), vendor, name)["resources"]
    assert resources["limits"] == {resource: "6"}
    # Kubernetes wants equal requests of what cannot be overcommitted.
    assert resources["requests"] == resources["limits"]


def test_more_devices_than_asked_for_are_a_contradiction() -> None:
    written = targets.write("k8s", replace(PLAIN, layout=Layout(tp=2)), SITE)
    (text,) = written.files.values()
    for resource in ("nvidia.com/gpu", "gpu.intel.com/i915"):
        changed = text.replace('nvidia.com/gpu: "2"', f'{resource}: "4"')
        with pytest.raises(RooflineError, match="4 devices, but TP 2 takes 2") as caught:
            targets.read(changed, lambda name: pytest.fail(name), "pod.yaml")
        line = int(caught.value.where.split(":")[1])
        assert resource in changed.splitlines()[line - 1]


POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: x}
spec:
  template:
    spec:
      containers:
        - name: sidecar
          image: proxy
        - name: server
          image: vllm/vllm-openai:latest
          CONTAINER
"""


@pytest.mark.parametrize(
    "container",
    [
        'args: ["--model", "org/m", "-tp", "2"]',
        'command: ["/bin/sh", "-c", "vllm serve org/m -tp 2"]',
        'command: ["bash", "-c"]\n          args: ["vllm serve org/m -tp 2"]',
        'command: ["vllm", "serve"]\n          args: ["org/m", "-tp", "2"]',
    ],
)
def test_containers_as_people_write_them(container: str) -> None:
    text = POD.replace("CONTAINER", container)
    served = targets.read(text, lambda name: pytest.fail(name), "pod.yaml").served
    assert (served.model, served.layout, served.replicas) == ("org/m", Layout(tp=2), 1)


def test_a_pod_without_an_engine_is_refused_where_its_containers_are() -> None:
    with pytest.raises(RooflineError, match="no container starts a known engine") as caught:
        targets.read(POD.replace("CONTAINER", "command: [sleep]"), lambda name: pytest.fail(name))
    assert caught.value.where == "command:8:9"


def test_a_replica_on_several_nodes_is_not_a_pod() -> None:
    with pytest.raises(RooflineError, match="a pod is on one node of 8"):
        targets.write("k8s", replace(PLAIN, layout=Layout(tp=8, pp=2)), SITE)


@pytest.mark.parametrize(
    ("layout", "builder", "key"),
    [
        (Layout(tp=2), "build_openai_app", "llm_configs"),
        (Layout(dp=4, ep=4), "build_dp_openai_app", "llm_config"),
    ],
)
def test_ray_is_given_the_application_of_the_layout(layout: Layout, builder: str, key: str) -> None:
    written = targets.write("ray-serve", replace(PLAIN, layout=layout, replicas=2), SITE)
    (application,) = yaml.safe_load(written.files["serve.yaml"])["applications"]
    assert application["import_path"] == f"ray.serve.llm:{builder}"
    assert list(application["args"]) == [key]
    config = application["args"][key]
    config = config[0] if isinstance(config, list) else config
    # The fields of LLMConfig that are set, in Ray 2.60.
    assert set(config) == {
        "model_loading_config", "accelerator_type", "deployment_config", "engine_kwargs",
    }  # fmt: skip
    assert config["accelerator_type"] == "H100"
    assert config["deployment_config"] == {"num_replicas": 2}
    assert read_back(written).served.layout == layout


def test_ray_runs_only_vllm() -> None:
    with pytest.raises(RooflineError, match="runs vLLM, not sglang"):
        targets.write("ray-serve", replace(PLAIN, engine="sglang"), SITE)


def test_a_gpu_that_ray_does_not_name_is_said() -> None:
    written = targets.write("ray-serve", PLAIN, replace(SITE, gpu="tpu-v5e"))
    assert "accelerator_type" not in written.files["serve.yaml"]
    assert any("no accelerator type for tpu-v5e" in note for note in written.notes)


def pod(*required: str) -> dict[str, Any]:
    """Schema of a pod with one container at least: names, images and words of text."""
    words = {"type": "array", "items": {"type": "string"}}
    counts = {"additionalProperties": {"type": "string", "pattern": "^[0-9]+$"}}
    container = {
        "type": "object",
        "required": ["name", "image", *required],
        "properties": {
            "command": words,
            "args": words,
            "env": {"type": "array", "items": {"required": ["name"], "type": "object"}},
            "resources": {"properties": {"limits": counts, "requests": counts}},
        },
    }
    containers = {"type": "array", "minItems": 1, "items": container}
    return {"type": "object", "required": ["containers"], "properties": {"containers": containers}}


DEPLOYMENT = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "apps/v1"},
        "spec": {
            "required": ["replicas", "selector", "template"],
            "properties": {
                "replicas": {"type": "integer", "minimum": 1},
                "template": {
                    "required": ["metadata", "spec"],
                    "properties": {"spec": pod("command", "resources")},
                },
            },
        },
    },
}
"""Fields that a Deployment needs and a server uses; Kubernetes' API reference, ``apps/v1``."""
NAME = "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$"
GRAPH = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "nvidia.com/v1beta1"},
        "kind": {"const": "DynamoGraphDeployment"},
        "spec": {
            "required": ["components"],
            "properties": {
                "components": {
                    "type": "array",
                    "items": {
                        "required": ["name", "type", "replicas", "podTemplate"],
                        "additionalProperties": False,
                        "properties": {
                            "name": {"type": "string", "maxLength": 63, "pattern": NAME},
                            "type": {"enum": ["frontend", "worker", "prefill", "decode"]},
                            "replicas": {"type": "integer", "minimum": 1},
                            "podTemplate": {"properties": {"spec": pod()}},
                        },
                    },
                }
            },
        },
    },
}
"""Keys of Dynamo's examples of ``nvidia.com/v1beta1``; limits of names and types as in its
``deploy/operator/api/v1beta1``."""
SIDE = {
    "type": "object",
    "required": ["create"],
    "properties": {
        "create": {"type": "boolean"},
        "replicas": {"type": "integer", "minimum": 1},
        "parallelism": {
            "additionalProperties": False,
            "properties": {"tensor": {"type": "integer", "minimum": 1}},
        },
        "containers": pod("modelCommand", "args")["properties"]["containers"],
    },
}
VALUES = {
    "type": "object",
    "required": ["modelArtifacts", "routing", "decode", "prefill"],
    "additionalProperties": False,
    "properties": {
        "modelArtifacts": {
            "required": ["name", "uri", "size", "authSecretName", "labels"],
            "properties": {
                "name": {"type": "string"},
                "uri": {"type": "string"},
                "size": {"type": "string"},
                "authSecretName": {"type": "string"},
                "labels": {
                    "additionalProperties": False,
                    "properties": {
                        "llm-d.ai/inferenceServing": {"const": "true"},
                        "llm-d.ai/model": {"type": "string"},
                    },
                },
            },
            "additionalProperties": False,
        },
        "routing": {
            "required": ["servicePort", "proxy"],
            "properties": {
                "servicePort": {},
                "proxy": {
                    "properties": {
                        "enabled": {"type": "boolean"},
                        "connector": {"type": "string"},
                    },
                },
            },
            "additionalProperties": False,
        },
        "decode": SIDE,
        "prefill": SIDE,
    },
}
"""Keys that llm-d's modelservice chart takes: its ``values.schema.json`` at 00b82e2f."""
APPLICATION = {
    "type": "object",
    "required": ["applications"],
    "properties": {
        "applications": {
            "type": "array",
            "minItems": 1,
            "items": {"required": ["name", "route_prefix", "import_path", "args"]},
        }
    },
}
"""Schema of Ray Serve's configuration files."""


def valid(text: str, schema: dict[str, Any], kind: str = "") -> dict[str, Any]:
    """The document of a kind, or the only one, which the schema holds for."""
    found = [each for each in yaml.safe_load_all(text) if not kind or each["kind"] == kind]
    (document,) = found
    jsonschema.validate(document, schema)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize(
    ("target", "engine", "schema", "kind"),
    [
        *(("k8s", engine, DEPLOYMENT, "Deployment") for engine in targets.ENGINES),
        ("ray-serve", "vllm", APPLICATION, ""),
        ("dynamo", "vllm", GRAPH, ""),
        ("dynamo", "sglang", GRAPH, ""),
        ("llm-d", "vllm", VALUES, ""),
    ],
)
def test_manifests_are_valid(
    target: str, engine: str, schema: dict[str, Any], kind: str, tp: int
) -> None:
    served = replace(PLAIN, engine=engine, layout=Layout(tp=tp), replicas=2)
    (text,) = targets.write(target, served, SITE).files.values()
    valid(text, schema, kind)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_dynamo_has_workers_of_prefill_and_of_decode(engine: str) -> None:
    served = replace(PLAIN, engine=engine, layout=Layout(tp=4), replicas=2)
    before = PrefillServers(replace(served, layout=Layout(tp=2), replicas=3), SITE)
    (text,) = targets.write("dynamo", served, SITE, before).files.values()
    parts = {each["type"]: each for each in valid(text, GRAPH)["spec"]["components"]}
    assert set(parts) == {"frontend", "decode", "prefill"}
    for mode, replicas, devices in (("decode", 2, "4"), ("prefill", 3, "2")):
        assert parts[mode]["replicas"] == replicas
        (worker,) = parts[mode]["podTemplate"]["spec"]["containers"]
        assert worker["command"] == ["python3", "-m", f"dynamo.{engine}"]
        args = worker["args"]
        assert args[args.index("--disaggregation-mode") + 1] == mode
        assert worker["resources"]["limits"] == {"nvidia.com/gpu": devices}
    assert targets.read(text, no_files, "graph.yaml").served == served


def test_llm_d_has_pools_of_prefill_and_of_decode() -> None:
    served = replace(PLAIN, layout=Layout(tp=4), replicas=2)
    before = PrefillServers(replace(served, layout=Layout(tp=2), replicas=3), SITE)
    (text,) = targets.write("llm-d", served, SITE, before).files.values()
    values = valid(text, VALUES)
    assert [values[side]["replicas"] for side in ("decode", "prefill")] == [2, 3]
    assert [values[side]["parallelism"]["tensor"] for side in ("decode", "prefill")] == [4, 2]
    for side in ("decode", "prefill"):
        (server,) = values[side]["containers"]
        assert "--kv-transfer-config" in server["args"]
        assert "--tensor-parallel-size" not in server["args"]  # which the chart writes
    (alone,) = targets.write("llm-d", served, SITE).files.values()
    assert valid(alone, VALUES)["prefill"] == {"create": False}


@pytest.mark.parametrize(
    ("target", "served", "message"),
    [
        ("dynamo", replace(PLAIN, engine="trtllm"), "not written for Dynamo"),
        ("llm-d", replace(PLAIN, engine="sglang"), "llm-d runs vLLM"),
        ("dynamo", replace(PLAIN, layout=Layout(tp=16)), "one node"),
        ("llm-d", replace(PLAIN, layout=Layout(dp=8, ep=8)), "one copy of attention"),
    ],
)
def test_what_a_platform_does_not_have_is_refused(
    target: str, served: ReplicaServer, message: str
) -> None:
    with pytest.raises(RooflineError, match=message) as refused:
        targets.write(target, served, SITE)
    assert refused.value.hint


def test_a_pool_of_prefill_wants_a_platform_that_has_one() -> None:
    with pytest.raises(RooflineError, match="not written for k8s"):
        targets.write("k8s", PLAIN, SITE, PrefillServers(PLAIN, SITE))
