"""Kernels, and their shapes, that operators ask measurements for."""

from itertools import product

import numpy as np
import pytest

from roofline.api.setting import make_deployment
from roofline.cost.calibration.by_kind import kernel_query, sorted_out
from roofline.cost.calibration.kernel import FitLabel, FittedKernel, KernelQuery
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.calibration.wires import payload_of
from roofline.cost.deployment import Deployment
from roofline.cost.kernels import exchange
from roofline.cost.kernels.form import FittedForm, machine, seconds
from roofline.cost.kernels.residual import Hull
from roofline.cost.layout import SINGLE, Layout
from roofline.cost.roof import roof
from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.cost.work import Op
from roofline.hardware.catalog import gpu
from roofline.model.catalog import architecture
from roofline.records import replace
from roofline.serving.stages import price_step
from tests.cases import cases


def deployment(model: str, device: str, layout: Layout = SINGLE) -> Deployment:
    """Priced by measured kernels, and by nothing else."""
    given = make_deployment(architecture(model), gpu(device), None, layout, calibration="auto")
    assert isinstance(given.calibration, GpuCalibration)
    return replace(given, calibration=replace(given.calibration, fallback=False))


def first_stage(given: Deployment, group: SequenceGroup) -> dict[str, Op]:
    return {name: op for name, (op, _) in price_step(given, group)[0].ops.items()}


@pytest.mark.parametrize("layout", [Layout(tp=8, pp=2), Layout(tp=4, pp=2)])
def test_what_is_sent_to_another_node_is_not_priced_as_inside_one(layout: Layout) -> None:
    given = deployment("llama-3.1-70b", "h100-sxm", layout)
    op = first_stage(given, decode(16.0, 2048.0))["send"]
    inside = float(op.work.network_bytes) == 0.0
    assert inside == (layout.devices <= 8)
    assert (payload_of(op) is not None) == inside
    assert (roof(op, given).measured is not None) == inside


@pytest.mark.parametrize("device", ["h100-pcie", "h100-nvl", "a100-pcie"])
def test_bridges_of_pairs_are_not_taken_for_a_switch(device: str) -> None:
    """More devices than a bridge joins talk through PCIe, or over a part of the wires each."""
    given = deployment("llama-3.1-70b", device, Layout(tp=4))
    for group in (prefill(1.0, 2048.0), decode(16.0, 2048.0)):
        for op in first_stage(given, group).values():
            if op.kind == "collective":
                time = roof(op, given)
                assert time.measured is None, op.name
                assert float(time.seconds) == float(np.max(op.wire_s)), op.name


def attention_of(given: Deployment, group: SequenceGroup, begin: str) -> tuple[Op, float]:
    """Attention of a step, and what it takes over the least that published rates allow."""
    ops = first_stage(given, group)
    op = next(op for name, op in ops.items() if name.startswith(begin))
    time = roof(op, given)
    return op, float(np.asarray(time.seconds)) / float(np.asarray(time.overlapped))


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_devices_that_share_a_long_prompt_take_their_share_of_its_attention(cp: int) -> None:
    """All pairs of a causal mask are split evenly, whatever queries a device has."""
    group = prefill(1.0, 65536.0)
    alone, shared = (
        attention_of(deployment("llama-3.1-8b", "h100-sxm", Layout(cp=each)), group, "attention")
        for each in (1, cp)
    )
    assert shared[1] == pytest.approx(alone[1], rel=0.1)


def test_a_window_of_wide_keys_is_not_taken_for_latent_attention_without_one() -> None:
    given = deployment("mimo-v2-flash", "h200-sxm", Layout(tp=8))
    op, over = attention_of(given, prefill(8.0, 65536.0), "attention-window")
    whole = first_stage(given, prefill(8.0, 65536.0))["attention"]
    assert (op.dims["head_dim"], op.dims["value_dim"]) == (192.0, 128.0)
    assert float(np.asarray(roof(op, given).seconds)) < float(
        np.asarray(roof(whole, given).seconds)
    )
    assert over < 20.0
    decoded, _ = attention_of(given, decode(8.0, 65536.0), "attention-window")
    assert roof(decoded, given).measured is not None


def test_keys_that_are_chosen_cost_what_is_chosen() -> None:
    given = deployment("deepseek-v3.2", "h200-sxm", Layout(tp=8))
    op, over = attention_of(given, prefill(1.0, 65536.0), "attention-absorbed")
    known = roof(op, given).measured
    assert known is not None
    assert known.found is not None
    assert known.found.fit.label.kind == "sparse-attention"
    assert over < 10.0


def test_a_chunk_holds_its_own_tokens_only() -> None:
    given = deployment("llama-4-scout-17b-16e", "h200-sxm", Layout(tp=8))

    def seconds(group: SequenceGroup) -> float:
        op, _ = attention_of(given, group, "attention-chunk-8192")
        return float(np.asarray(roof(op, given).seconds))

    assert seconds(decode(64.0, 8192.0 + 100.0)) == seconds(decode(64.0, 100.0))
    assert seconds(decode(64.0, 8191.0)) > seconds(decode(64.0, 4000.0)) > seconds(decode(64.0, 50))
    assert seconds(prefill(1.0, 65536.0)) == pytest.approx(seconds(prefill(8.0, 8192.0)), rel=1e-9)


@pytest.mark.slow
def test_summaries_of_groups_of_tokens_are_not_taken_for_a_window_alone() -> None:
    """They have kernels of their own, and longer contexts more of them to read."""
    given = deployment("deepseek-v4-flash", "h200-sxm", Layout(tp=8))
    short, long = (first_stage(given, decode(512.0, each)) for each in (16384.0, 131072.0))
    compressed = [
        name
        for name, op in long.items()
        if name.startswith("attention-compressed") and float(np.asarray(op.dims["ratio"])) > 0
    ]
    assert compressed
    for name in compressed:
        known = roof(long[name], given).measured
        assert known is not None
        assert known.found is not None
        assert known.found.fit.label.kind == "sparse-attention", name
        assert np.all(known.seconds >= roof(short[name], given).seconds), name


def test_a_ring_of_keys_takes_as_long_as_its_wires() -> None:
    given = deployment("llama-3.1-8b", "l40s", Layout(cp=8))
    given = replace(given, options=replace(given.options, ring_attention=True))
    op, _ = attention_of(given, prefill(1.0, 4096.0), "attention")
    assert float(np.asarray(roof(op, given).seconds)) >= float(np.asarray(op.wire_s)) > 0.0


FITTED = [
    *product(
        ("a100-sxm", "h100-sxm", "l40s", "rtx-4090", "b200-sxm"),
        ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"),
        ("bf16", "fp8", "int8", "int4-awq"),
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("device", "model", "weights"), FITTED[:: cases(3, 1)])
def test_no_fit_multiplies_or_reads_faster_than_was_published(
    device: str, model: str, weights: str
) -> None:
    """Activations may be in the last-level cache; products, weights and key/value caches not."""
    given = make_deployment(
        architecture(model), gpu(device), None, weights=weights, calibration="auto"
    )
    rate = given.node.gpu.hbm_bytes_per_s
    sizes = np.array([1.0, 16.0, 256.0])
    for group in (prefill(sizes, 4096.0), decode(sizes, 100.0), decode(sizes, 30000.0)):
        for name, op in first_stage(given, group).items():
            assert isinstance(given.calibration, GpuCalibration)
            known = given.calibration.price(op, given.node.gpu)
            if known is None or op.kind == "pointwise":
                continue
            compute = op.work.flops / given.node.gpu.rate(op.arithmetic) if op.arithmetic else 0.0
            cold = op.work.weight_bytes + op.work.kv_bytes
            least = np.maximum(compute, cold / rate)
            assert np.all(known.seconds >= least * (1.0 - 1e-9)), name


def test_the_cache_of_a_layer_is_not_left_from_the_step_before() -> None:
    """An H100 holds 50 MB; a kernel that is measured alone finds its cache there."""
    given = deployment("llama-3.1-8b", "h100-sxm")
    small = first_stage(given, decode(4.0, 2048.0))["attention"]
    known = roof(small, given).measured
    assert known is not None
    assert known.found is not None
    model = known.found.fit.model
    wanted = kernel_query(small, given.node.gpu)
    assert wanted is not None
    warm = seconds(model, wanted.dims, machine(given.node.gpu, "bf16"))
    assert float(small.work.kv_bytes) < given.node.gpu.l2_bytes
    assert float(known.seconds) > float(warm[0])


def test_conversions_take_time_where_no_product_has_it() -> None:
    """A calibration of 16-bit products only has no product that makes its own inputs."""
    given = make_deployment(
        architecture("llama-3.1-8b"), gpu("h100-sxm"), None, weights="fp8", calibration="auto"
    )
    assert isinstance(given.calibration, GpuCalibration)
    labels = tuple(each for each in given.calibration.labels if "fp8" not in each.variant)
    bare = replace(given, calibration=replace(given.calibration, labels=labels))
    op = first_stage(given, decode(16.0, 2048.0))["quantise-qkv"]
    assert float(roof(op, given).seconds) == 0.0
    assert float(roof(op, bare).seconds) > 0.0


@pytest.mark.parametrize(("batch", "context"), [(1.0, 65536.0), (32.0, 4096.0)])
@pytest.mark.parametrize("device", ["a100-sxm", "h100-sxm"])
def test_a_chunk_takes_no_leap_where_another_kernel_takes_over(
    device: str, batch: float, context: float
) -> None:
    """Twice the queries on the same keys are at most twice the work."""
    given = deployment("llama-3.1-8b", device)
    times = []
    for new in (2.0**each for each in range(2, 11)):
        op = first_stage(given, prefill(batch, context, context - new))["attention"]
        known = roof(op, given).measured
        assert known is not None
        assert known.assumed
        times.append(float(known.seconds))
    ratios = np.array(times[1:]) / np.array(times[:-1])
    assert np.all(ratios < 2.1)
    assert np.all(ratios > 0.95)


def one(given: Deployment, group: SequenceGroup | list[SequenceGroup], begin: str) -> Op:
    ops = step(given, group)
    return next(op for name, op in ops.items() if name.startswith(begin))


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        ("qwen3-next-80b-a3b-instruct", "gdn"),
        ("kimi-linear-48b-a3b-base", "kda"),
        ("nemotron-h-8b", "mamba2"),
    ],
)
@pytest.mark.parametrize(("new", "phase"), [(1.0, "decode"), (4.0, "verify"), (4096.0, "prefill")])
def test_a_recurrent_layer_asks_for_both_kernels_of_its_phase(
    model: str, layer: str, new: float, phase: str
) -> None:
    given = deployment(model, "h100-sxm")
    ops = step(given, SequenceGroup(16.0, new, 4096.0))
    wanted = {
        name: known
        for name, op in ops.items()
        if (op.kind == "scan" or "taps" in op.dims)
        and (known := kernel_query(op, given.node.gpu)) is not None
    }
    assert {each.kind for each in wanted.values()} == {"linear-attention"}
    first = {each.variants[0] for each in wanted.values()}
    assert first == {f"{layer}-{phase}-convolution", f"{layer}-{phase}-state"}
    for each in wanted.values():
        assert each.cold == (phase != "prefill")
        assert each.dims["batch"].tolist() == [16.0]
        assert each.dims["new"].tolist() == [new]
    (state,) = (each for each in wanted.values() if "sequences" in each.dims)
    assert bool(state.assumed) == (phase == "verify" and layer != "kda")


def test_tensor_parallel_devices_ask_for_their_heads_and_channels() -> None:
    whole, half = (
        {
            name: kernel_query(op, gpu("h100-sxm"))
            for name, op in step(
                deployment("qwen3-next-80b-a3b-instruct", "h100-sxm", Layout(tp=tp)),
                decode(16.0, 2048.0),
            ).items()
            if op.kind == "scan" or "taps" in op.dims
        }
        for tp in (1, 2)
    )
    assert len(whole) == 2
    for name, each in whole.items():
        other = half[name]
        assert each is not None
        assert other is not None
        for column in ("heads", "key_heads", "channels", "sequences"):
            if column in each.dims:
                assert other.dims[column].tolist() == (each.dims[column] / 2).tolist(), column


def test_prompts_and_tokens_of_one_step_are_convolved_apart() -> None:
    given = deployment("qwen3-next-80b-a3b-instruct", "h100-sxm")
    both = [SequenceGroup(32.0, 1.0, 2049.0, "decode"), SequenceGroup(1.0, 512.0, 512.0, "prefill")]
    for name, phase in (("convolution-decode", "decode"), ("convolution-prefill", "prefill")):
        wanted = kernel_query(one(given, both, name), given.node.gpu)
        assert wanted is not None
        assert wanted.variants[0] == f"gdn-{phase}-convolution"
        alone = kernel_query(
            one(given, replace(both[phase == "prefill"], name=""), "convolution"), gpu("h100-sxm")
        )
        assert alone is not None
        assert {k: v.tolist() for k, v in alone.dims.items()} == {
            k: v.tolist() for k, v in wanted.dims.items()
        }


def test_rows_of_a_recurrent_layer_are_sorted_by_phase() -> None:
    given = deployment("qwen3-next-80b-a3b-instruct", "h100-sxm")
    op = one(
        given, SequenceGroup(4.0, np.array([1.0, 3.0, 8.0, 9.0, 100.0, 1.0]), 4096.0), "convolution"
    )
    parts = {
        tuple(rows.tolist()): kernel_query(part, given.node.gpu) for rows, part in sorted_out(op)
    }
    told = {rows: each.variants[0] for rows, each in parts.items() if each is not None}
    assert told == {
        (0, 5): "gdn-decode-convolution",
        (1, 2): "gdn-verify-convolution",
        (3, 4): "gdn-prefill-convolution",
    }


def test_hyper_connections_ask_for_the_streams_of_one_part_of_a_layer() -> None:
    given = deployment("deepseek-v4-pro", "h100-sxm", Layout(tp=8))
    ops = step(given, decode(16.0, 2048.0))
    width, layers = given.architecture.d_model, len(given.architecture.layers)
    for name, variant in (("streams", "pre"), ("norm", "post")):
        wanted = kernel_query(ops[name], given.node.gpu)
        assert wanted is not None
        assert (wanted.kind, wanted.variants) == ("hyper-connections", (variant,))
        shape = {key: value.tolist() for key, value in wanted.dims.items()}
        assert shape == {"tokens": [16], "hidden": [width], "streams": [4], "sites": [1]}
        # Two parts a layer: twice the layers, each one site.
        assert ops[name].repeat == 2 * layers
    after = kernel_query(ops["norm"], given.node.gpu)
    assert after is not None
    assert after.then is not None
    assert after.then.dims["width"].tolist() == [width]
    plain = kernel_query(ops["final-norm"], given.node.gpu)
    assert plain is not None
    assert plain.kind == "pointwise"


def test_attention_over_depth_is_no_hyper_connection() -> None:
    given = deployment("kimi-k3", "h100-sxm", Layout(tp=8))
    wanted = kernel_query(one(given, decode(16.0, 2048.0), "norm"), given.node.gpu)
    assert wanted is not None
    assert wanted.kind == "pointwise"


def test_an_encoder_asks_for_attention_without_a_mask() -> None:
    given = deployment("bert-large-uncased", "h100-sxm")
    wanted = kernel_query(one(given, prefill(8.0, 512.0), "attention"), given.node.gpu)
    assert wanted is not None
    assert wanted.kind == "encoder-attention"
    shape = {key: value.tolist() for key, value in wanted.dims.items()}
    assert shape == {"batch": [8], "seq": [512], "heads": [16], "head_dim": [64]}
    causal = kernel_query(
        one(deployment("llama-3.1-8b", "h100-sxm"), prefill(8.0, 512.0), "attention"),
        gpu("h100-sxm"),
    )
    assert causal is not None
    assert causal.kind == "prefill-attention"


def routed(
    model: str, device: str, layout: Layout, group: SequenceGroup, weights: str = ""
) -> KernelQuery:
    """Kernel that the first matrix of a mixture of experts asks for."""
    network, chip = architecture(model), gpu(device)
    made = make_deployment(network, chip, None, layout, weights=weights or None, calibration="auto")
    ops = first_stage(made, group)
    wanted = kernel_query(ops["experts-gate-up"], made.node.gpu)
    assert wanted is not None
    return wanted


@pytest.mark.parametrize(
    ("device", "weights", "variant", "arithmetic"),
    [
        ("b200-sxm", "nvfp4", "nvfp4", "fp4"),
        ("b200-sxm", "mxfp4", "w4a8_mxfp4_mxfp8", "fp8"),
        ("b200-sxm", "mxfp4-w4a16", "w4a16_mxfp4", "bf16"),
        ("b200-sxm", "int4-awq", "int4_wo", "bf16"),
        ("h100-sxm", "int4-awq", "int4_wo", "bf16"),
        ("h100-sxm", "int4-w4a8", "w4afp8", "fp8"),
        ("h100-sxm", "fp8-block", "fp8_block", "fp8"),
        ("h100-sxm", "bf16", "bfloat16", "bf16"),
    ],
)
def test_experts_ask_for_the_kernels_of_their_own_format(
    device: str, weights: str, variant: str, arithmetic: str
) -> None:
    group = decode(512.0, 2048.0)
    wanted = routed("qwen3-235b-a22b", device, Layout(tp=8), group, weights=weights)
    while wanted.otherwise is not None:
        wanted = wanted.otherwise
    plain = [each for each in wanted.variants if "-" not in each]
    assert (plain[0], wanted.arithmetic, wanted.assumed) == (variant, arithmetic, "")
    assert wanted.kind == "moe"


def test_few_tokens_and_spread_experts_ask_for_kernels_that_are_for_them() -> None:
    few, many = decode(16.0, 2048.0), decode(1024.0, 2048.0)
    whole, spread = Layout(tp=8), Layout(tp=8, ep=8)

    def cases(layout: Layout, group: SequenceGroup) -> set[str]:
        wanted = routed("qwen3-235b-a22b", "b200-sxm", layout, group, weights="nvfp4")
        return {end for end, rows, _ in wanted.special if rows.all()}

    assert cases(whole, few) == {"min-latency"}
    assert cases(whole, many) == set()
    assert cases(spread, many) == {"spread"}


@pytest.mark.parametrize(
    ("model", "device", "engine", "weights", "variant"),
    [
        ("qwen3-235b-a22b", "b200-sxm", "trtllm", "nvfp4", "nvfp4-min-latency"),
        ("qwen3-235b-a22b", "b200-sxm", "vllm", "nvfp4", "nvfp4"),
        ("deepseek-v3", "b200-sxm", "sglang", "fp8-block", "fp8_block-limited"),
        # What SGLang has on Blackwell is no kernel of Hopper.
        ("deepseek-v3", "h100-sxm", "sglang", "fp8-block", "fp8_block"),
        # Weights alone in 4 bits are Marlin's where an engine has it, gpt-oss as stored is not.
        ("gpt-oss-120b", "h200-sxm", "vllm", "mxfp4-w4a16", "int4_wo"),
        ("gpt-oss-120b", "h200-sxm", "vllm", "mxfp4", "w4a16_mxfp4"),
        ("gpt-oss-120b", "h200-sxm", "trtllm", "mxfp4-w4a16", "w4a16_mxfp4"),
    ],
)
def test_a_kernel_of_some_shapes_is_for_the_engine_and_the_device_that_have_it(
    model: str, device: str, engine: str, weights: str, variant: str
) -> None:
    made = make_deployment(
        architecture(model),
        gpu(device),
        None,
        Layout(tp=8),
        engine=engine,
        weights=weights,
        calibration="auto",
    )
    priced = roof(first_stage(made, decode(16.0, 2048.0))["experts-gate-up"], made).measured
    assert priced is not None
    assert priced.found is not None
    label = priced.found.fit.label
    assert (label.device, label.provider, label.variant) == (device, engine, variant)


@pytest.mark.parametrize(("batch", "phase"), [(64.0, "decode"), (65536.0, "prefill")])
def test_experts_whose_tokens_come_from_others_ask_for_the_kernel_of_that(
    batch: float, phase: str
) -> None:
    """Engines without a kernel of their own on the device ask for that of experts at home."""
    wanted = routed("deepseek-v3", "h200-sxm", Layout(dp=8, ep=8), decode(batch, 1.0))
    assert (wanted.kind, wanted.variants) == ("moe-wideep", (f"fp8_block-{phase}", "fp8_block"))
    assert wanted.otherwise is not None
    assert wanted.otherwise.kind == "moe"
    if phase == "decode":
        np.testing.assert_allclose(wanted.dims["tokens"] * 8, wanted.dims["rows"])
    at_home = routed("deepseek-v3", "h200-sxm", Layout(tp=8, ep=8), decode(batch, 1.0))
    assert at_home.kind == "moe"


def test_tensorrt_llm_exchanges_tokens_by_kernels_of_its_own() -> None:
    """By one-sided stores where those were measured, else a kernel prepares the dispatch."""
    made = make_deployment(
        architecture("deepseek-v3"),
        gpu("gb200"),
        None,
        Layout(dp=4, ep=4),
        calibration="auto",
        weights="nvfp4",
    )
    ops = first_stage(made, decode(512.0, 1.0))
    two = ("dispatch-nvfp4", "prepare-nvfp4", "combine-bfloat16")
    model = FittedForm(
        exchange.ALLTOALL,
        {c.name: c.prior for c in exchange.ALLTOALL.constants},
        None,
        {},
        0.1,
        Hull(np.zeros(3), np.full(3, 40.0), np.full((1, 3), 20.0), 40.0),
    )
    seconds = {}
    for variants in (two, (*two, "dispatch-nvfp4-one-sided")):
        labels = tuple(FitLabel("gb200", "trtllm", "moe-alltoall", each) for each in variants)
        kernels = {label: FittedKernel(label, "bf16", model) for label in labels}
        for engine in ("trtllm", "vllm"):
            given = GpuCalibration("test", engine, labels, kernels.__getitem__)
            known = given.price(ops["dispatch"], gpu("gb200"))
            assert (known is not None) == (engine == "trtllm")
            if known is not None:
                seconds[len(variants)] = float(np.max(known.seconds))
    assert seconds[3] > seconds[4] > 0.0
