"""A Kubernetes Deployment and Service around an engine's server, and back.

Fields: Kubernetes API reference, ``apps/v1`` Deployment and ``v1`` Service, ConfigMap; "Schedule
GPUs" for ``nvidia.com/gpu`` as a limit; "Using Kubernetes" of vLLM's documentation for the memory
volume at ``/dev/shm``, which NCCL passes data through between devices of a node. The kubelet
expands ``$(NAME)`` in arguments and takes ``$$`` for a dollar.
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
LIMITS: Final = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
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
