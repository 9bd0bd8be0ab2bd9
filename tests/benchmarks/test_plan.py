"""Time of a plan. Printed, never asserted."""

import time

import roofline
from tests.benchmarks.reference import reference


def test_a_plan_of_up_to_32_gpus() -> None:
    with reference() as loop:
        began, used = time.perf_counter(), time.process_time()
        result = roofline.plan("llama-3.1-70b", "h100-sxm", gpus=32, rate=10.0)
        wall, used = time.perf_counter() - began, time.process_time() - used
    meta = result.metadata
    print(
        f"\n  llama-3.1-70b on up to 32 H100: {meta['layouts']} layouts bounded, "
        f"{meta['curves']} curves, {meta['tabulated']} tabulated, {meta['simulated']:,} runs in "
        f"{wall:.1f} s ({used:.1f} s of a core) {loop.time(used)}",
        end="",
    )
