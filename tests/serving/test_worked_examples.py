"""Two deployments worked out by hand, from the published shapes and datasheets alone.

Llama 3.1 8B: D 4096, F 14336, 32 layers, 32 query and 8 key/value heads of 128, V 128256.
Llama 3.1 70B: D 8192, F 28672, 80 layers, 64 query and 8 key/value heads of 128, V 128256.
H100 SXM: 3.35 TB/s, 989 TFLOP/s dense bf16 (989.4 to four digits), NVLink 450 GB/s a direction.
"""

from typing import Final

import pytest

from roofline.cost.memory import kv_bytes_per_sequence, weight_bytes
from roofline.cost.roof import roof
from roofline.cost.step import decode, prefill, step
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from tests.cost.networks import total
from tests.pricing import seconds
from tests.serving.deployments import on

BANDWIDTH: Final = 3.35e12
PEAK: Final = 989.4e12
LINK: Final = 450e9
PARAMETERS_8B: Final = 8_030_261_248
EMBEDDING_8B: Final = 128256 * 4096
LAYER_8B: Final = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336


def test_a_decode_step_of_8b_reads_every_weight_but_the_embedding() -> None:
    # Everything but the input embedding is read once, at 2 bytes; of the embedding a row for
    # each of the 16 sequences: (8,030,261,248 − 128256·4096)·2 + 16·4096·2 = 15,009,980,416 B.
    work = total(step(on(), decode(16.0, 2048.0)))
    assert work.weight_bytes == (PARAMETERS_8B - EMBEDDING_8B) * 2 + 16 * 4096 * 2
    assert work.weight_bytes == 15_009_980_416


def test_a_decode_step_of_8b_reads_the_cache_and_adds_to_it() -> None:
    # A token leaves 32 layers · 2 · 8 heads · 128 · 2 B = 131,072 B = 128 KiB. Each of 16 sequences
    # reads its 2048 tokens and the new one, which it has written: 16 · 2050 · 128 KiB.
    work = total(step(on(), decode(16.0, 2048.0)))
    assert work.kv_bytes == 16 * (2049 + 1) * 131_072


def test_a_decode_step_of_8b_does_two_flops_a_weight_and_four_a_pair() -> None:
    # 2 · 16 · (matrices and LM head) + 16 · 2049 pairs · 32 layers · 4 · 32 · 128.
    matrices = 32 * LAYER_8B + EMBEDDING_8B
    assert matrices == PARAMETERS_8B - EMBEDDING_8B - 65 * 4096  # all but 65 norms
    work = total(step(on(), decode(16.0, 2048.0)))
    assert work.flops == 2 * 16 * matrices + 16 * 2049 * 32 * 4 * 32 * 128


def test_a_decode_step_of_8b_takes_its_bytes_over_the_bandwidth() -> None:
    # At batch 16 every matrix has about 16 FLOP/B and attention 4, far below the ridge of 295:
    # every operator is bound by memory, so the step takes all its bytes / 3.35 TB/s.
    # Activations of a token, in elements of 2 bytes:
    #   embedding out                                  4096
    #   a layer: two norms, 4·D each (stream and update in, both out)   32768
    #            qkv 4096 in, 6144 out; rotary 5120 in and out; K and V in to be stored 2048
    #            attention 4096 in and out; out projection 4096 in and out
    #            gate-up 4096 in, 28672 out; activation 28672 in, 14336 out; down 14336 in, 4096 out
    #   final norm 16384; LM head 4096 in, 128256 out
    layer = 32768 + (4096 + 6144) + 2 * 5120 + 2048 + 2 * 4096 + 2 * 4096
    layer += (4096 + 28672) + (28672 + 14336) + (14336 + 4096)
    token = 4096 + 32 * layer + 16384 + 4096 + 128256
    moved = 15_009_980_416 + 16 * 2050 * 131_072 + 16 * token * 2
    ops = step(on(), decode(16.0, 2048.0))
    assert total(ops).hbm_bytes == moved
    assert float(seconds(ops, on())) == pytest.approx(moved / BANDWIDTH, rel=1e-12)
    assert moved / BANDWIDTH == pytest.approx(5.85e-3, rel=0.01)


def test_a_prefill_of_8b_is_bound_by_arithmetic_in_its_matrices() -> None:
    # 16 prompts of 2048: matrices 2 · 32768 · 6,979,321,856 (the LM head sees 16 rows only);
    # attention 16 · 2048 · 2049 / 2 pairs · 32 · 4 · 4096.
    ops = step(on(), prefill(16.0, 2048.0))
    pairs = 2048 * 2049 // 2
    flops = 2 * 32768 * 32 * LAYER_8B + 2 * 16 * EMBEDDING_8B + 16 * pairs * 32 * 4 * 4096
    assert total(ops).flops == flops
    gemms = [op for op in ops.values() if op.kind == "gemm" and op.name != "lm-head"]
    assert {int(roof(op, on()).bound) for op in gemms} == {0}
    compute = 2 * 32768 * 32 * LAYER_8B / PEAK
    ours = sum(float(roof(op, on()).overlapped) * op.repeat for op in gemms)
    assert ours == pytest.approx(compute, rel=1e-3)


def test_8b_in_the_memory_of_an_h100() -> None:
    # Weights 2 B a parameter; a cache of 16 · (2048 + 256 − 1) tokens of 128 KiB: the last token
    # is answered, never fed.
    batch = static_batch(on(engine="ideal"), Workload(16, 2048, 256))
    assert batch.memory.weights == 2 * PARAMETERS_8B
    assert batch.memory.kv == 16 * 2303 * 131_072


def test_a_device_of_eight_holds_an_eighth_of_70b_and_all_its_norms() -> None:
    # One of eight devices: 8 of 64 query heads, 1 of 8 key/value heads, 3584 of 28672 inner rows,
    # 16032 of 128256 words, and the 161 norms whole.
    layer = 8192 * (8 + 2) * 128 + 8 * 128 * 8192 + 3 * 8192 * 3584
    tables = 2 * 16032 * 8192
    deployment = on("llama-3.1-70b", tp=8)
    assert weight_bytes(deployment) == 2 * (80 * layer + tables + 161 * 8192)
    # The whole has 70,553,706,496 parameters; seven more copies of the norms make eight shards.
    assert 8 * weight_bytes(deployment) == 2 * (70_553_706_496 + 7 * 161 * 8192)
    # 80 layers · 2 · 1 head · 128 · 2 B a token.
    assert kv_bytes_per_sequence(deployment, 1000.0) == 80 * 2 * 128 * 2 * 1000


def test_a_decode_step_of_70b_has_161_sums_in_the_switch() -> None:
    # After the embedding and twice in each of 80 layers the 16 tokens of 8192 are summed: 256 KiB,
    # which the switch reads from each device, and an eighth of the sum that each stores, in two
    # rounds. At the end the logits of 16 rows are gathered: 7/8 of 16 · 128256 · 2 B in one round.
    work = total(step(on("llama-3.1-70b", tp=8), decode(16.0, 2048.0)))
    assert work.wire_bytes == 161 * (1 + 1 / 8) * 16 * 8192 * 2 + 7 / 8 * 16 * 128256 * 2
    assert work.messages == 161 * 2 + 1


def test_a_decode_step_of_70b_on_eight_takes_its_bytes_and_its_wires() -> None:
    # Every operator is bound by memory (intensity about 16 in matrices, 8 in attention) or is a
    # collective, and they follow one another: bytes / 3.35 TB/s + sent / 450 GB/s.
    deployment = on("llama-3.1-70b", tp=8)
    ops = step(deployment, decode(16.0, 2048.0))
    layer = 8192 * (8 + 2) * 128 + 8 * 128 * 8192 + 3 * 8192 * 3584
    weights = 2 * (80 * layer + 16032 * 8192 + 161 * 8192) + 16 * 8192 * 2
    cache = 16 * 2050 * 80 * 2 * 128 * 2
    work = total(ops)
    assert work.weight_bytes == weights
    assert work.kv_bytes == cache
    link = deployment.node.link
    assert link is not None
    assert link.bytes_per_s == LINK
    # The logits go to seven peers at once; each beyond the first one costs a little more.
    rounds = float(work.messages) * link.latency_s + 6 * link.per_peer_s
    on_wire = float(work.wire_bytes) / LINK + rounds
    expected = float(work.hbm_bytes) / BANDWIDTH + on_wire
    assert float(seconds(ops, deployment)) == pytest.approx(expected, rel=1e-12)


def test_eight_devices_do_the_flops_of_70b_together() -> None:
    # No head is repeated, so eight times the work of a device is that of the network.
    layer = 8192 * (64 + 16) * 128 + 64 * 128 * 8192 + 3 * 8192 * 28672
    matrices = 80 * layer + 128256 * 8192
    flops = 2 * 16 * matrices + 16 * 2049 * 80 * 4 * 64 * 128
    work = total(step(on("llama-3.1-70b", tp=8), decode(16.0, 2048.0)))
    assert 8 * float(work.flops) == pytest.approx(flops, rel=1e-14)
