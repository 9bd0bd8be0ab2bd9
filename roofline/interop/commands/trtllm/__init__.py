"""TensorRT-LLM: its command is written and read. `facts` has the flags and where they are from."""

from roofline.interop.commands.trtllm.facts import IMAGE, KV, NAME, TITLE
from roofline.interop.commands.trtllm.reading import read, starts
from roofline.interop.commands.trtllm.writing import write

__all__ = ["IMAGE", "KV", "NAME", "TITLE", "read", "starts", "write"]
