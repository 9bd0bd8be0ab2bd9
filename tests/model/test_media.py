"""Encoders of pictures and sound, beside the totals that their owners publish."""

from typing import Any

import pytest

import roofline
from roofline.model import parameters
from roofline.model.architecture import Architecture
from roofline.model.catalog import architecture
from tests.model.reading import load

LARGE: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "patch_size": 14,
}


def whole(network: Architecture) -> int:
    return parameters.total(network) + sum(network.other_parameters.values())


@pytest.mark.parametrize(
    ("config", "published"),
    [
        # openai/clip-vit-base-patch32 and the encoder of pictures of clip-vit-large-patch14.
        ({"model_type": "clip", "vision_config": {}, "text_config": {}}, 151_277_313),
        ({"model_type": "clip_vision_model", **LARGE}, 303_179_776),
        # google/siglip-base-patch16-224.
        ({"model_type": "siglip", "vision_config": {}, "text_config": {}}, 203_155_970),
        # openai/whisper-tiny and whisper-large-v3.
        ({"model_type": "whisper"}, 37_760_640),
        (
            {
                "model_type": "whisper",
                "d_model": 1280,
                "encoder_layers": 32,
                "decoder_layers": 32,
                "encoder_attention_heads": 20,
                "decoder_attention_heads": 20,
                "encoder_ffn_dim": 5120,
                "decoder_ffn_dim": 5120,
                "num_mel_bins": 128,
                "vocab_size": 51866,
            },
            1_543_490_560,
        ),
    ],
)
def test_parameters_are_those_that_are_published(config: dict[str, Any], published: int) -> None:
    assert whole(load(config)) == published


@pytest.mark.parametrize(
    ("width", "layers", "heads", "millions"), [(768, 12, 12, 979.0), (1024, 24, 16, 3446.0)]
)
def test_v_moe_has_the_parameters_of_its_paper(
    width: int, layers: int, heads: int, millions: float
) -> None:
    """V-MoE-B/16 and L/16, experts in every other layer: table 8 of arXiv 2106.05974."""
    network = load(
        {
            "model_type": "vmoe",
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
        }
    )
    assert whole(network) / 1e6 == pytest.approx(millions, abs=0.06)


def test_a_pooling_head_is_told_by_the_config() -> None:
    """The probe, its attention, a norm and two matrices, all with biases."""
    config = {"model_type": "siglip_vision_model", "vision_use_head": False}
    with_head = whole(load(config | {"vision_use_head": True}))
    head = 768 + 4 * (768 * 768 + 768) + 2 * 768 + 2 * 768 * 3072 + 3072 + 768
    assert with_head - whole(load(config)) == head


def test_pictures_a_second_by_hand() -> None:
    """All products of CLIP's large encoder on a batch of pictures of 257 patches."""
    network = architecture("clip-vit-large-patch14")
    result = roofline.analyze(network, "h100-sxm", batch=64, prompt=257, calibration="none")
    rows = {row["op"]: row["flops"] for row in result.tables["ops"].rows()}
    seen = 64 * 257
    assert rows["patches"] == 2 * seen * 1024 * 3 * 14 * 14
    assert rows["qkv"] == 24 * 2 * seen * 3 * 1024**2
    assert rows["up"] == rows["down"] == 24 * 2 * seen * 1024 * 4096
    assert rows["lm-head"] == 2 * 64 * 1024 * 768
