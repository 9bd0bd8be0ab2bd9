"""SGLang: its command is written and read. `facts` has the flags and where they are from."""

from roofline.interop.commands.sglang.facts import IMAGE, KV, NAME, TITLE
from roofline.interop.commands.sglang.reading import read, starts
from roofline.interop.commands.sglang.writing import write

__all__ = ["IMAGE", "KV", "NAME", "TITLE", "read", "starts", "write"]
