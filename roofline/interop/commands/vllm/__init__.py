"""vLLM: its command is written and read. `facts` has the flags and where they are from."""

from roofline.interop.commands.vllm.facts import IMAGE, KV, NAME, STAGES, TITLE
from roofline.interop.commands.vllm.reading import from_settings, read, starts
from roofline.interop.commands.vllm.writing import bench, engine_settings, environment, write

__all__ = [
    "IMAGE",
    "KV",
    "NAME",
    "STAGES",
    "TITLE",
    "bench",
    "engine_settings",
    "environment",
    "from_settings",
    "read",
    "starts",
    "write",
]
