"""Scheduling and speculative decoding: which function answers a row, with what."""

from collections.abc import Mapping
from typing import Final

from roofline.cost.textbook import bounds, latency
from roofline.serving import acceptance as speculation
from tests.golden.rows import Adapter, Entry, Printed, Quoted

SCHEDULING: Final[Mapping[str, Entry]] = {
    "sb-app-evict": Adapter(
        latency.evicted_tokens,
        {"batch": Quoted("B"), "prompt": Quoted("P"), "generated": Quoted("G")},
    ),
}

SPECULATIVE: Final[Mapping[str, Entry]] = {
    **dict.fromkeys(
        (
            "spec-t1-0.6-2-speed",
            "spec-t1-0.7-3-speed",
            "spec-t1-0.8-2-speed",
            "spec-t1-0.8-5-speed",
            "spec-t1-0.9-2-speed",
            "spec-t1-0.9-10-speed",
        ),
        Adapter(
            speculation.walltime_improvement,
            {"acceptance": Quoted("alpha"), "length": Quoted("gamma"), "cost": Quoted("c")},
        ),
    ),
    "ds-mtp": Adapter(  # the lower end of what is quoted, as the rounded gain is
        speculation.expected_tokens,
        {"acceptance": Printed("0.8"), "length": Quoted("gamma")},
    ),
    **dict.fromkeys(
        ("spec-chin-xsum-nucleus", "spec-chin-xsum-greedy", "spec-chin-humaneval"),
        Adapter(bounds.ratio, {"before": Quoted("base_ms"), "after": Quoted("spec_ms")}),
    ),
}
