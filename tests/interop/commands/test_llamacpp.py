"""llama.cpp names devices after the library that drives them."""

import pytest

from roofline.cost.layout import Layout
from roofline.interop.commands import targets
from roofline.interop.commands.served import ReplicaServer
from roofline.records import replace
from tests.interop.commands.serving import SITE


@pytest.mark.parametrize(
    ("vendor", "devices"),
    [("NVIDIA", "CUDA0,CUDA1"), ("AMD", "ROCm0,ROCm1"), ("Intel", "SYCL0,SYCL1")],
)
def test_devices_are_named_after_the_library_of_their_vendor(vendor: str, devices: str) -> None:
    served = ReplicaServer("llamacpp", "org/model-GGUF:Q8_0", max_sequences=8, layout=Layout(tp=2))
    words = targets.write("llamacpp", served, replace(SITE, vendor=vendor)).words
    assert words[words.index("--device") + 1] == devices
