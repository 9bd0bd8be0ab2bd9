"""A Kubernetes Deployment and Service around an engine's server, and back.

Fields: Kubernetes API reference, ``apps/v1`` Deployment and ``v1`` Service, ConfigMap; "Schedule
GPUs" for ``nvidia.com/gpu`` as a limit, "Intel GPU device plugin for Kubernetes" and "Intel Gaudi
Device Plugin for Kubernetes" for Intel's, "About TPUs in GKE" for Google's; "Using Kubernetes" of
vLLM's documentation for the memory volume at ``/dev/shm``, which NCCL passes data through between
devices of a node. The kubelet expands ``$(NAME)`` in arguments and takes ``$$`` for a dollar.
"""

import re
from collections.abc import Mapping
from types import ModuleType
from typing import Final

from roofline.interop.commands import llamacpp, sglang, trtllm, vllm

ENGINES: Final[Mapping[str, ModuleType]] = {
    module.NAME: module for module in (vllm, sglang, trtllm, llamacpp)
}
NAME: Final = "k8s"
LIMITS: Final = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "intel": "gpu.intel.com/xe",
    "google": "google.com/tpu",
    "gaudi2": "habana.ai/gaudi",
    "gaudi3": "habana.ai/gaudi",
}
"""Resource that a device plugin registers: by name of the device, else by its vendor. Arc Pro runs
the driver ``xe``; GPUs of the driver before it are ``gpu.intel.com/i915``."""
OTHERS: Final = frozenset({"gpu.intel.com/i915"})
"""Resources that count devices in manifests of others, beside `LIMITS`."""
CONFIG: Final = "/etc/engine"
PROGRAMS: Final = {"llama-server": "/app/llama-server"}
"""Where images keep programs that are not on their search path."""
CONTAINERS: Final = ("spec", "template", "spec", "containers")
SHELLS: Final = ("sh", "bash")
TOKEN: Final = {
    "name": "HF_TOKEN",
    "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}},
}
"""For networks that their makers hand out to those who ask."""
SHARED_MEMORY: Final = "16Gi"
UNFIT: Final = re.compile(r"[^a-z0-9]+")
APART: Final = re.compile(r"(?m)^---[ \t]*$")
SAYS: Final = re.compile(r"(?m)^[ \t]*[^#\s]")
LONGEST: Final = 40
