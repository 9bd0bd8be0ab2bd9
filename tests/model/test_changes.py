"""Changes to networks: what they do to shape and size, and what they refuse."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.content import shipped
from roofline.errors import (
    DocumentError,
    InputError,
    MissingRateError,
    RooflineError,
    UnknownNameError,
)
from roofline.hardware.catalog import gpu, gpu_names
from roofline.model import catalog, parameters
from roofline.model.architecture import Architecture, Attention, Block, Mla, Mlp, Moe
from roofline.model.changes import NETWORK, changed
from roofline.model.changes.settings import CHANGES, apply, parse, setup_of
from roofline.model.precision import named, resolve
from roofline.records import replace

LLAMA = catalog.architecture("llama-2-13b")
DIVISORS = [n for n in range(1, 41) if 40 % n == 0]


def attention(network: Architecture) -> list[Attention]:
    return [block.mixer for block in network.layers if isinstance(block.mixer, Attention)]


def model(text: str, base: str = "llama-2-13b") -> Architecture:
    setup = setup_of(catalog.architecture(base), gpu("h100-sxm"))
    return apply(setup, parse(text)).network


@pytest.mark.parametrize(
    ("base", "same"),
    [
        ("llama-2-13b", "gqa=40"),
        ("llama-2-13b", "mha"),
        ("llama-2-13b", "cla=1"),
        ("llama-2-13b", "layers=40"),
        ("llama-2-13b", "ffn=13824"),
        ("llama-2-13b", "heads=40"),
        ("llama-2-13b", "d_model=5120"),
        ("mixtral-8x7b-v0.1", "experts=8/2"),
        ("qwen2.5-7b", "gqa=4"),
        ("qwen2.5-7b", "heads=28"),
        ("gemma-3-12b", "local=1024/6"),
        ("olmo-2-1124-7b", "gqa=32"),
        ("gpt2", "heads=12"),
        ("gpt-oss-20b", "heads=64"),
    ],
)
def test_a_change_to_what_is_there_already_changes_nothing(base: str, same: str) -> None:
    assert model(same, base).layers == catalog.architecture(base).layers


@given(st.sampled_from(DIVISORS))
def test_grouped_heads_take_their_projections_and_cache_with_them(heads: int) -> None:
    network = changed(LLAMA, "gqa", str(heads))
    fewer = 40 - heads
    assert parameters.total(LLAMA) - parameters.total(network) == 40 * 2 * 5120 * fewer * 128
    assert parameters.kv_elements_per_token(network) == 40 * 2 * heads * 128


def test_mqa_is_gqa_with_one_head_and_mha_undoes_it() -> None:
    assert changed(LLAMA, "mqa", "").layers == changed(LLAMA, "gqa", "1").layers
    assert changed(changed(LLAMA, "mqa", ""), "mha", "").layers == LLAMA.layers


def test_biases_of_keys_and_values_go_with_their_heads() -> None:
    qwen = catalog.architecture("qwen2.5-7b")  # biases on q, k and v: 28 and 4 heads of 128
    fewer = parameters.total(qwen) - parameters.total(changed(qwen, "gqa", "1"))
    assert fewer == 28 * 2 * 3 * 128 * (3584 + 1)


def test_norms_over_all_heads_follow_their_number_and_norms_of_one_head_do_not() -> None:
    over_all = changed(catalog.architecture("olmo-2-1124-7b"), "gqa", "8")
    assert attention(over_all)[0].norm_parameters == (32 + 8) * 128
    of_one = catalog.architecture("qwen3-8b")
    assert attention(of_one)[0].norm_parameters == 2 * 128
    assert attention(changed(of_one, "gqa", "1"))[0].norm_parameters == 2 * 128
    shared = attention(changed(of_one, "cla", "2"))
    assert [part.norm_parameters for part in shared[:2]] == [2 * 128, 128]


@given(st.integers(1, 40))
def test_shared_caches_shrink_what_is_kept_and_not_what_is_read(size: int) -> None:
    network = changed(LLAMA, "cla", str(size))
    owners = -(-40 // size)
    assert parameters.kv_elements_per_token(network) == owners * 2 * 5120
    assert sum(part.kv_read_elements for part in attention(network)) == 40 * 2 * 5120
    fewer = parameters.total(LLAMA) - parameters.total(network)
    assert fewer == (40 - owners) * 2 * 5120 * 5120


def test_only_layers_that_see_equally_far_share_a_cache() -> None:
    parts = attention(model("local=1024/6,cla=2"))
    keeps: dict[int | None, list[bool]] = {}
    for part in parts:
        keeps.setdefault(part.window, []).append(not part.reuses_kv)
    assert keeps[1024] == [number % 2 == 0 for number in range(34)]
    assert keeps[None] == [True, False] * 3


@given(st.integers(1, 4096))
def test_windows_hold_in_every_layer_but_each_sixth(size: int) -> None:
    network = changed(LLAMA, "local", f"{size}/6")
    expected = [None if number % 6 == 0 else size for number in range(1, 41)]
    assert [part.window for part in attention(network)] == expected
    assert network.layers == model(f"global-every=6,window={size}").layers


def test_a_latent_of_full_rank_caches_no_less_than_the_heads_did() -> None:
    for heads in DIVISORS:
        grouped = changed(LLAMA, "gqa", str(heads))
        latent = changed(grouped, "mla", str(2 * heads * 128))
        assert parameters.kv_elements_per_token(latent) - parameters.kv_elements_per_token(
            grouped
        ) == (40 * 64)


def test_a_latent_has_the_matrices_of_its_definition() -> None:
    network = changed(LLAMA, "mla", "512")
    part = network.layers[0].mixer
    assert isinstance(part, Mla)
    queries = 5120 * 40 * (128 + 64)
    down, up, out = 5120 * (512 + 64), 512 * 40 * (128 + 128), 40 * 128 * 5120
    made = sum(each.parameters for each in part.linears(5120)) + part.other_parameters
    assert made == queries + down + up + out + 512
    assert parameters.kv_bytes_per_token(network) == 40 * 2 * (512 + 64)


def test_a_latent_replaces_only_layers_that_see_everything() -> None:
    kinds = [type(block.mixer) for block in model("mla=512,local=1024/6").layers]
    assert kinds == [Mla if number % 6 == 0 else Attention for number in range(1, 41)]


def test_pruned_llama_is_as_large_as_the_published_one() -> None:
    """Llama-3.1-Minitron-4B-Width-Base: the shape and the total of its card, 4.51B."""
    network = model("d_model=3072,ffn=9216", "llama-3.1-8b")
    assert f"{parameters.total(network) / 10**9:.2f}" == "4.51"


def test_pruning_in_every_direction_leaves_the_matrices_of_a_smaller_network() -> None:
    """A Nemotron of 15B cut in width, heads and depth: not gated, norms with biases."""
    block = Block(Attention(48, 8, 128), Mlp(24576, gated=False), 2, 4 * 6144)
    nemotron = Architecture(
        "nemotron", "nemotron", 6144, 256000, (block,) * 32, False, 6144, final_norm_parameters=6144
    )
    change = "d_model=3072,ffn=9216,heads=24,gqa=8,layers=28"
    network = apply(setup_of(nemotron, gpu("h100-sxm")), parse(change)).network
    attend = 2 * 3072 * 24 * 128 + 2 * 3072 * 8 * 128
    layer = attend + 2 * 3072 * 9216 + 4 * 3072
    assert parameters.total(network) == 2 * 256000 * 3072 + 28 * layer + 3072


def test_upcycled_experts_are_copies_of_the_dense_part() -> None:
    network = changed(LLAMA, "experts", "8/2")
    assert parameters.total(network) - parameters.total(LLAMA) == 40 * (
        7 * 3 * 5120 * 13824 + 8 * 5120
    )
    one = changed(LLAMA, "experts", "1/1")
    assert parameters.total(one) - parameters.total(LLAMA) == 40 * 5120  # a router of one


def test_heads_are_pruned_in_whole_groups() -> None:
    network = model("heads=24", "llama-3.1-8b")
    assert {(part.heads, part.kv_heads) for part in attention(network)} == {(24, 6)}
    with pytest.raises(InputError, match="whole groups of 4"):
        model("heads=22", "llama-3.1-8b")


@pytest.mark.parametrize(
    ("stored", "zeros", "bits"),
    [
        ("bf16", "2:4", 16 / 2 + 1),
        ("fp8", "2:4", 8 / 2 + 1),
        ("int8", "2:4", 8 / 2 + 1),
        ("int4", "2:4", 4 / 2 + 1 + 20 / 128),
        ("bf16", "0.5", 16 / 2 + 1),
        ("bf16", "0.75", 16 / 4 + 1),
    ],
)
def test_zeros_take_the_bits_of_their_formula(stored: str, zeros: str, bits: float) -> None:
    network = model(f"weights={stored},sparsity={zeros}")
    assert named(network.weight_format).bits == bits
    dense = parameters.weight_bytes(LLAMA.stored_as(stored))
    matrices = 40 * (4 * 5120**2 + 3 * 5120 * 13824)
    saved = matrices * (named(stored).bits - bits) / 8
    assert dense - parameters.weight_bytes(network) == pytest.approx(saved, abs=1)


def test_the_order_in_which_changes_are_written_does_not_matter() -> None:
    assert model("sparsity=2:4,weights=fp8").layers == model("weights=fp8,sparsity=2:4").layers
    assert model("sparsity=2:4,weights=fp8").weight_format == "fp8-2:4"
    assert model("layers=20,student=llama-2-7b").name == "llama-2-7b"
    assert len(model("layers=20,student=llama-2-7b").layers) == 20


def test_an_fp32_checkpoint_thins_the_16_bits_it_is_loaded_in() -> None:
    fp32 = replace(LLAMA, weight_format="fp32")
    setup = apply(setup_of(fp32, gpu("h100-sxm")), parse("sparsity=2:4"))
    assert setup.network.weight_format == "bf16-2:4"


def test_two_in_four_zeros_double_the_rate_where_the_gpu_has_one() -> None:
    for name in gpu_names():
        machine = gpu(name)
        factor = machine.facts.get("sparsity.factor")
        if "fp16" not in machine.flops_per_s:
            continue
        if factor is not None and factor.value == 2:
            made = resolve("fp16-2:4", "auto", machine)
            assert machine.rate(made.linear_arithmetic) == 2 * machine.rate("fp16")
            assert made.attention_arithmetic == "fp16"
        else:
            with pytest.raises(MissingRateError):
                resolve("fp16-2:4", "auto", machine)


def test_scattered_zeros_keep_the_dense_rate_on_any_gpu() -> None:
    for name in ("v100-sxm", "h100-sxm"):
        assert resolve("fp16-sparse0.5", "auto", gpu(name)).linear_arithmetic == "fp16"


@pytest.mark.parametrize("zeros", ["2:4", "sparse0.75"])
def test_zeros_of_a_mix_are_those_of_each_of_its_formats(zeros: str) -> None:
    thinned = model(f"weights=q4_k_m,sparsity={zeros.removeprefix('sparse')}")
    assert replace(model(f"weights=q4_k_m-{zeros}"), name="", provenance={}) == replace(
        thinned, name="", provenance={}
    )
    assert (thinned.weight_format, thinned.head_format) == (f"q4-k-{zeros}", "q6-k")
    assert thinned.mix == f"q4-k-m-{zeros}"
    assert {dict(block.formats).get("down") for block in thinned.layers} == {None, f"q6-k-{zeros}"}


def test_two_of_four_zeros_of_a_mix_by_hand() -> None:
    # Half of the values and 2 bits for each place: 4.5 → 3.5 bits a weight of q4-k, of q6-k 2 less.
    dense, thinned = model("weights=q4_k_m"), model("weights=q4_k_m,sparsity=2:4")
    down = 13824 * 5120
    inner = 40 * (4 * 5120**2 + 3 * down)
    six = sum(dict(block.formats).get("down") == "q6-k" for block in dense.layers) * down
    freed = parameters.weight_bytes(dense) - parameters.weight_bytes(thinned)
    assert float(freed) == (inner + six) / 8


def test_routers_stay_dense() -> None:
    network = model("sparsity=2:4", "mixtral-8x7b-v0.1")
    assert network.layers[0].stored("router", network.weight_format) == "bf16"
    assert network.layers[0].stored("experts-down", network.weight_format) == "bf16-2:4"


@pytest.mark.parametrize(
    "text",
    [
        *["", ",", "gqa", "gqa=", "gqa=7", "gqa=0", "gqa=-1", "gqa=٣", "gqa=8.0", "gqa=1e1"],
        *["mqa=2", "gqa=8,gqa=4", "gaq=8", "=8", "gqa==8", "mla=512,window=64", "local=1024"],
        *["local=1/0", "local=a/b", "sparsity=1", "sparsity=0.0", "sparsity=0.01", "sparsity=3:4"],
        *["sparsity=0.5,weights=bf16-2:4", "weights=bogus", "weights=", "kv=bogus", "student=nope"],
        *["gpu=nope", "batch=0", "batch=1e9", "tp=0", "layers=41", "layers=0", "experts=2/8"],
        *["experts=9999999/1", "cla=41", "cla=0", "global-every=6", "d_model=0", "\x1b[31m=3"],
        *["student=deepseek-v3,gqa=8", "student=mamba-2.8b,window=8", "student=mamba-2.8b,ffn=8"],
        *["student=jamba-v0.1,d_model=64", "mla=" + "9" * 99, "depth=20,layers=30", "x" * 9999],
    ],
)
def test_what_has_no_meaning_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(RooflineError) as caught:
        model(text)
    assert caught.value.hint
    assert len(caught.value.message) < 200


def test_a_mistyped_change_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError) as caught:
        parse("windw=1024")
    assert "did you mean window?" in caught.value.hint


def test_provenance_follows_the_change_and_not_the_config() -> None:
    network = model("gqa=8")
    assert network.provenance["kv_heads"] == "gqa 8, `changes` gqa=8"
    assert network.provenance["d_model"] == LLAMA.provenance["d_model"]


def test_every_change_has_an_example_that_works() -> None:
    for name, change in CHANGES.items():
        text = f"{name}={change.example}" if change.example else name
        lead = "window=512," if name == "global_every" else ""
        assert model(lead + text).layers


PATCHED = catalog.patched()


def test_patched_networks_are_apart_from_published_ones() -> None:
    assert len(PATCHED) == 4
    assert not set(PATCHED) & set(catalog.names())


@pytest.mark.parametrize("name", PATCHED)
def test_a_patched_network_has_the_total_its_file_states(name: str) -> None:
    network = catalog.architecture(name)
    text = (shipped("scenarios") / "models" / f"{name}.yaml").read_text("utf-8")
    assert f"total {parameters.total(network):,}" in text
    assert network.name == name
    assert network.provenance["base"].startswith("base = llama-3-70b, scenarios/models/")


def test_a_patched_network_is_its_base_with_the_changes() -> None:
    base = catalog.architecture("llama-3-70b")
    assert catalog.architecture("llama-3-70b-mla").layers == changed(base, "mla", "512").layers
    local = catalog.architecture("llama-3-70b-local")
    assert 2 * parameters.kv_elements_per_token(local, beyond_window=True) == 13 * 2 * 2 * 8 * 128


HEAD = "schema_version: 1\nname: mine\nsource: {title: mine}\n"


def test_a_users_own_patch_works_from_any_folder(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + "base: llama-2-13b\npatch: {GQA: 8, sparsity: '2:4', depth: 20}\n")
    network = catalog.architecture(str(path))
    assert network.name == "mine"
    assert network.layers == model("gqa=8,layers=20,sparsity=2:4").layers
    other = tmp_path / "other.yaml"
    other.write_text(HEAD + "base: mine.yaml\npatch: {window: 64}\n")
    assert {part.window for part in attention(catalog.architecture(str(other)))} == {64}


@pytest.mark.parametrize(
    ("rest", "place", "said"),
    [
        ("base: llama-2-13b\npatch: {gqa: 7}\n", "5:14", "7 key/value heads"),
        ("base: llama-2-13b\npatch: {gaq: 8}\n", "5:9", "no change called 'gaq'"),
        ("base: llama-2-13b\npatch: {mqa: 1}\n", "5:14", "takes no value"),
        ("base: llama-2-13b\npatch: {gqa: true}\n", "5:14", "needs a value"),
        ("base: llama-2-13b\npatch: {mqa: false}\n", "5:14", "mqa is false"),
        ("base: llama-2-13b\npatch: {layers: 2, depth: 2}\n", "5:20", "given twice"),
        ("base: llama-2-13b\npatch: {}\n", "5:8", "the patch is empty"),
        ("base: llama-2-13b\npatch: {gqa: [8]}\n", "5:14", ""),
        ("base: llama-2-13b\n", "", "patch"),
        ("base: nobody\npatch: {gqa: 8}\n", "4:7", "nobody"),
        ("base: mine.yaml\npatch: {mqa: true}\n", "4:7", "circle"),
        ("base: llama-2-13b\npatch: {gqa: 8}\nconfig: {}\n", "6:1", "config"),
        ("base: 3\npatch: {gqa: 8}\n", "4:7", ""),
    ],
)
def test_a_patch_that_cannot_be_is_refused_at_its_place(
    tmp_path: Path, rest: str, place: str, said: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + rest)
    with pytest.raises(DocumentError) as caught:
        catalog.architecture(str(path))
    assert caught.value.where.startswith(f"{path}:{place}")
    assert said in caught.value.message


def test_experts_of_a_mixture_change_in_its_sparse_layers_only() -> None:
    network = model("experts=16/4", "deepseek-v2-lite")
    kinds = [block.feedforward for block in network.layers]
    assert isinstance(kinds[0], Mlp)
    assert all(isinstance(part, Moe) and part.experts == 16 for part in kinds[1:])


def test_the_registry_of_networks_is_part_of_the_registry_of_settings() -> None:
    assert set(NETWORK) < set(CHANGES)
