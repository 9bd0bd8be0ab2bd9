"""Number formats: which function answers a row, and with what."""

from collections.abc import Mapping
from typing import Final

from roofline.cost.textbook import bounds, memory
from tests.golden import engine
from tests.golden.rows import Adapter, Entry, Implied, Quoted

QUANTIZATION: Final[Mapping[str, Entry]] = {
    "awq": Adapter(
        bounds.ratio,
        {
            "before": Adapter(engine.element_bits, {"name": Implied("fp16", "fp16")}),
            "after": Adapter(engine.element_bits, {"name": Implied("int3", "int3")}),
        },
    ),
    "gptoss-ckpt": Adapter(
        memory.mixed_weight_memory,
        {
            "quantised": Quoted("moe"),
            "width": Adapter(engine.stored_width, {"name": Implied("mxfp4", "MXFP4")}),
            "rest": Quoted("rest"),
            "rest_width": Quoted("rest_bits", "bit"),
        },
    ),
}
