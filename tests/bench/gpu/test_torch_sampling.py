"""Sampling by PyTorch, where it is installed: who can be drawn, and how often."""

import pytest

from roofline.bench.gpu.torch_sampling import sample
from roofline.bench.probe import find, points


def test_work_reads_logits_and_noise() -> None:
    point = next(points(find("sampling").probe))
    assert point.probe.work(point.at).activation_bytes == 2 * 4 * 32_000


def test_only_the_likeliest_are_drawn_by_their_chances() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    chances = torch.tensor([0.4, 0.05, 0.3, 0.15, 0.1])
    logits = chances.log().expand(20_000, 5)
    noise = torch.empty(20_000, 5).exponential_()
    first = sample(logits, noise, top_k=1)
    assert (first == 0).all()
    drawn = torch.bincount(sample(logits, noise, top_k=4, top_p=0.8).ravel(), minlength=5) / 20_000
    wanted = torch.tensor([0.4, 0.0, 0.3, 0.15, 0.0]) / 0.85
    assert float((drawn - wanted).abs().max()) < 0.02
