"""Pictures in prompts: the tower's work, by hand, and what becomes of it."""

import pytest

import roofline
from roofline.errors import InputError
from roofline.model import parameters
from roofline.model.architecture import Architecture
from roofline.model.catalog import architecture, names
from roofline.model.tower import Media, Tower, VisionTower
from roofline.records import replace

TOWERS = [
    (name, tower)
    for name in names()
    for tower in architecture(name).towers
    if not name.startswith("gemma-3n")  # convolutions, which are no matrices
]


def operators(model: str | Architecture, **asked: object) -> dict[str, float]:
    result = roofline.analyze(model, "h100-sxm", calibration="none", **asked)  # type: ignore[arg-type]
    rows = result.tables["ops"].rows()
    return {row["op"]: row["flops"] for row in rows if row["phase"] == "prefill"}


def test_work_of_a_tower_by_hand() -> None:
    """Qwen2.5-VL on two pictures of 1024: 73 patches of 14 a side, rounded to an even number."""
    found = operators(
        "qwen2.5-vl-7b-instruct", batch=3, prompt=10, output=2, images=2, image_size=1024
    )
    patches, width, inner = 74 * 74, 1280, 3420
    pictures, tokens = 3 * 2, 37 * 37
    seen = pictures * patches
    assert found["vision-patches"] == 2 * seen * width * 3 * 2 * 14 * 14
    assert found["vision-qkv"] == 32 * 2 * seen * 3 * width * width
    assert found["vision-gate-up"] == 32 * 2 * seen * 2 * inner * width
    assert found["vision-down"] == 32 * 2 * seen * inner * width
    assert found["vision-attention-of-all"] == 4 * 4 * pictures * patches**2 * width
    assert found["vision-attention"] == pytest.approx(28 * 4 * seen * 64 * width)
    assert found["vision-merge"] == 2 * pictures * tokens * (4 * width) ** 2
    assert found["vision-project"] == 2 * pictures * tokens * 4 * width * 3584
    assert found["qkv"] == 28 * 2 * 3 * (10 + 2 * tokens) * 3584 * (3584 + 2 * 512)


@pytest.mark.parametrize(
    ("name", "tower"), TOWERS, ids=[f"{name}-{tower.medium}" for name, tower in TOWERS]
)
def test_matrices_of_a_tower_are_nearly_all_of_its_parameters(name: str, tower: Tower) -> None:
    """Its shape and its published count are stated apart: positions and norms are the rest.

    A convolution that sees two frames for a position has its matrix twice.
    """
    network = architecture(name)
    matrices = [linear for block in tower.layers for linear in block.linears(tower.width)]
    shaped = sum(linear.parameters for linear in (*matrices, *tower.projector))
    counted = network.other_parameters[f"{tower.medium} tower"]
    if tower.medium == "audio" or len(network.towers) == 1:
        counted += network.other_parameters.get("projector", 0)
    twice = tower.layers[0].extra[0].parameters // 2 if tower.medium == "audio" else 0
    assert 0.97 * counted < shaped - twice <= counted


def test_a_prompt_without_pictures_costs_what_it_did() -> None:
    network = architecture("qwen2.5-vl-7b-instruct")
    text = replace(network, towers=())
    asked = {"batch": 2, "prompt": 100, "output": 2}
    assert operators(network, **asked) == operators(text, **asked)


@pytest.mark.slow
def test_devices_share_a_tower() -> None:
    asked = {"prompt": 10, "output": 2, "images": 1, "batch": 1}
    one, four = (
        operators("qwen3-vl-8b-instruct", tp=each, gpus=each, **asked)["vision-qkv"]
        for each in (1, 4)
    )
    assert one == 4 * four


def test_a_tower_whose_heads_do_not_divide_is_whole_on_each_device() -> None:
    """Half of its 676,550,144 parameters more on each of two devices, in 16 bits."""
    network = architecture("qwen2.5-vl-7b-instruct")
    odd = replace(network, towers=(replace(network.towers[0], heads=15),))
    shared, whole = (
        next(
            row["bytes"]
            for row in roofline.analyze(
                each, "h100-sxm", gpus=2, tp=2, batch=1, prompt=10, output=2, calibration="none"
            )
            .tables["memory"]
            .rows()
            if row["part"] == "weights"
        )
        for each in (network, odd)
    )
    assert whole - shared == 676_550_144


def test_towers_take_memory_whether_there_are_pictures_or_not() -> None:
    network = architecture("qwen2.5-vl-7b-instruct")
    result = roofline.analyze(network, "h100-sxm", batch=1, prompt=10, output=2)
    rows = {row["part"]: row["bytes"] for row in result.tables["memory"].rows()}
    assert rows["weights"] == 2 * (parameters.total(network) + 676_550_144)


@pytest.mark.parametrize(
    ("shape", "pixels", "cut", "tokens"),
    [
        ({"merge": 4, "side": 896}, 4000, 1, 256),
        ({"merge": 2, "side": 336, "tiles": 16, "extra": 1}, 336, 1, 144),
        ({"merge": 2, "side": 336, "tiles": 16, "extra": 1}, 1024, 17, 17 * 144),
        ({"merge": 2, "side": 336, "tiles": 16, "extra": 1}, 9999, 17, 17 * 144),
    ],
)
def test_pictures_are_scaled_or_cut(
    shape: dict[str, int], pixels: int, cut: int, tokens: int
) -> None:
    tower = VisionTower(width=1408, layers=(), projector=(), patch=14, **shape)
    assert (tower.cut(pixels), tower.each(pixels)) == (cut, tokens)
    said = tower.said(Media(images=1, image_size=pixels))
    assert said.startswith(f"Each prompt has 1 picture of {pixels:,} × {pixels:,} pixels")


def test_a_network_that_does_not_see_is_refused() -> None:
    with pytest.raises(InputError, match="no vision tower"):
        roofline.analyze("llama-3.1-8b", images=1)
    with pytest.raises(InputError, match="`images` is -1"):
        Media(images=-1)
