"""How long a plan takes. Printed, never asserted."""

import time

import roofline


def test_a_plan_of_up_to_32_gpus() -> None:
    began, used = time.perf_counter(), time.process_time()
    result = roofline.plan("llama-3.1-70b", "h100-sxm", gpus=32, rate=10.0)
    meta = result.metadata
    print(
        f"\n  llama-3.1-70b on up to 32 H100: {meta['layouts']} layouts bounded, "
        f"{meta['curves']} curves, {meta['tabulated']} tabulated, {meta['simulated']:,} runs in "
        f"{time.perf_counter() - began:.1f} s ({time.process_time() - used:.1f} s of a core)",
        end="",
    )
