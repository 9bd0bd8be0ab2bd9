"""llama.cpp: its command is written and read. `facts` has the flags and where they are from."""

from roofline.interop.commands.llamacpp.facts import IMAGE, KV, MARGIN, MOST_SLOTS, NAME, TITLE
from roofline.interop.commands.llamacpp.reading import read, starts
from roofline.interop.commands.llamacpp.writing import write

__all__ = ["IMAGE", "KV", "MARGIN", "MOST_SLOTS", "NAME", "TITLE", "read", "starts", "write"]
