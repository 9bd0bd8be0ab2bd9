"""Reads the fields of one config mapping, and knows which ones nobody has understood.

A field that a builder reads is understood. Fields in `HARMLESS` never change the cost. Whatever is
left must be empty, false, zero or a bare word, or the network is refused: a field like
``num_experts_per_tok`` in a dense network means that the network is not what it seems.
"""

import json
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final, NoReturn

from roofline.errors import UnsupportedModelError

if TYPE_CHECKING:
    from roofline.schema import Document


_HARMLESS: Final = """
    architectures auto_map model_type transformers_version name_or_path license tokenizer_class
    bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id cls_token_id mask_token_id
    decoder_start_token_id eod_token_id begin_suppress_tokens suppress_tokens bad_words_ids
    forced_bos_token_id forced_eos_token_id gmask_token_id sop_token_id eop_token_id
    id2label label2id num_labels problem_type task_specific_params finetuning_task

    attention_dropout attn_dropout attn_pdrop embd_pdrop emb_pdrop resid_pdrop dropout
    hidden_dropout hidden_dropout_prob attention_dropout_prob attn_dropout_prob emb_dropout_prob
    attention_probs_dropout_prob embedding_dropout residual_dropout activation_dropout
    classifier_dropout layerdrop ffn_dropout
    initializer_range initializer_factor embedding_initializer_range init_std init_config
    init_device init_method_std

    rms_norm_eps layer_norm_eps layer_norm_epsilon layernorm_epsilon norm_eps norm_epsilon
    rope_theta rope_scaling rope_parameters rope_ratio rope_local_base_freq rotary_pct rotary_dim
    rotary_emb_base rotary_emb_fraction rotary_base partial_rotary_factor rope_pct rotary
    rope_percent rotary_percent original_max_position_embeddings use_dynamic_ntk use_logn_attn
    original_rope layer_rope_theta alibi_bias_max use_mrope mrope_section

    attn_logit_softcapping final_logit_softcapping query_pre_attn_scalar logit_scale
    softmax_scale logits_scaling embedding_multiplier residual_multiplier attention_multiplier
    scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn clip_qkv
    attention_softmax_in_fp32 scale_attention_softmax_in_fp32 softmax_in_fp32 slow_but_exact
    masked_softmax_fusion bias_dropout_fusion skip_bias_add skip_bias_add_qkv offset_alibi
    apply_query_key_layer_scaling fp32_residual_connection

    hidden_act hidden_activation activation activation_function

    use_cache use_return_dict return_dict output_attentions output_hidden_states torchscript
    pretraining_tp tensor_parallel use_flash_attn use_flash_attention attn_implementation
    attn_impl gradient_checkpointing chunk_size_feed_forward output_past bf16 fp16 fp32
    z_loss_weight onnx_safe use_cache_kernel tokenizer_type verbose use_pad_tok_in_ffn is_decoder
    summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout
    cache_implementation do_sample temperature top_p top_k num_beams max_length min_length
    repetition_penalty length_penalty no_repeat_ngram_size num_return_sequences diversity_penalty
    num_beam_groups typical_p early_stopping output_scores return_dict_in_generate
    remove_invalid_values encoder_no_repeat_ngram_size exponential_decay_length_penalty
    tie_encoder_decoder world_size inference_runner pre_allocate_kv_cache
    validate_runner_input pad_key_length max_batch_size max_sequence_length

    time_step_min time_step_max time_step_floor time_step_scale time_step_init_scheme
    mamba_dt_min mamba_dt_max mamba_dt_init_floor rescale_prenorm_residual residual_in_fp32
    use_mambapy use_falcon_mambapy use_associative_scan use_mamba_kernels mixer_rms_eps
    num_logits_to_keep calc_logits_for_entire_prompt moe_shared_expert_overlap mamba_hidden_act
    z_loss_coefficient n_ctx language_model_only
"""
HARMLESS: Final = frozenset(_HARMLESS.split())
"""Token ids, dropouts, initialisation, rotary angles, soft caps, run-time switches."""


EMPTY: Final[tuple[Any, ...]] = (None, False, 0, "", {}, [])
LARGEST: Final = 10**9
MOST_LAYERS: Final = 10_000
UNBOUNDED: Final = frozenset({"time_step_limit", "mamba_dt_limit"})
"""Ranges whose upper end may be Infinity."""


@dataclass(slots=True)
class Fields:
    """One mapping of a config, as it is being read."""

    document: "Document"
    path: tuple[str | int, ...]
    """Keys that lead to the mapping."""
    model_type: str
    """``model_type`` of the config."""
    name: str
    """Name of the network."""
    outer: "Fields | None" = None
    """The config it is a part of; such parts leave out what is at its default."""
    seen: set[str] = field(default_factory=set)
    """Keys that have been understood."""
    provenance: dict[str, str] = field(default_factory=dict)
    """Key, value and place by field of the architecture."""
    notes: list[str] = field(default_factory=list)
    """Conventions worth a sentence."""

    @property
    def data(self) -> dict[str, Any]:
        """The mapping itself."""
        value = self.document.data
        for step in self.path:
            value = value[step]
        assert isinstance(value, dict)
        return value

    @property
    def nested(self) -> bool:
        """True for a part of a larger config."""
        return self.outer is not None

    def part(self, key: str) -> "Fields":
        """A mapping inside of this one, with keys of its own."""
        return Fields(self.document, (*self.path, key), self.model_type, self.name, self)

    def where(self, *keys: str | int) -> str:
        """``file:line:column`` of a value in the mapping."""
        return self.document.where(*self.path, *keys)

    def refuse(self, key: str, problem: str, hint: str = "") -> NoReturn:
        """Give up on the network because of one field.

        Raises:
            UnsupportedModelError: Always.
        """
        raise UnsupportedModelError(
            problem,
            hint=hint or f"give a config.json of model_type {self.model_type} as published",
            where=self.where(key) if key in self.data else self.where(),
        )

    def refuse_at(self, keys: tuple[str | int, ...], problem: str, hint: str) -> NoReturn:
        """Give up on the network because of something inside a field.

        Raises:
            UnsupportedModelError: Always.
        """
        raise UnsupportedModelError(problem, hint=hint, where=self.where(*keys))

    def get(self, *keys: str) -> tuple[str, Any] | None:
        """First of several spellings that is present and not null; both must agree."""
        found = [(key, self.data[key]) for key in keys if self.data.get(key) is not None]
        self.seen.update(keys)
        for key, value in found[1:]:
            if value != found[0][1]:
                self.refuse(
                    key,
                    f"{key} = {_show(value)} contradicts {found[0][0]} = {_show(found[0][1])}",
                    "leave only the one that holds",
                )
        return found[0] if found else None

    def integer(
        self,
        name: str,
        *keys: str,
        default: int | None = None,
        why: str = "",
        low: int = 1,
        high: int = LARGEST,
    ) -> int:
        """Whole number, required unless there is a default.

        Args:
            name: Field of the architecture it is for.
            keys: Spellings of the key.
            default: Value where the key is absent or null.
            why: How the default comes about; else it is said to be that of the model type.
            low, high: Bounds, both allowed.

        Raises:
            UnsupportedModelError: Absent, not a whole number, or out of bounds.
        """
        value = self.optional(name, *keys, low=low, high=high)
        if value is None and default is not None:
            self.say(name, keys[0], default, why)
            return default
        if value is None:
            self.refuse(
                keys[0],
                f"{keys[0]} is missing" if keys[0] not in self.data else f"{keys[0]} is null",
                f"add {keys[0]} as the network's published config.json has it",
            )
        return value

    def optional(self, name: str, *keys: str, low: int = 1, high: int = LARGEST) -> int | None:
        """Whole number, or None where it is absent or null. See `integer`."""
        if (found := self.get(*keys)) is None:
            return None
        key, value = found
        given, bounds = f"{key} = {_show(value)}", f"number between {low} and {high}"
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, f"{given} is not a whole number", f"write one {bounds}")
        if not low <= value <= high:
            self.refuse(key, f"{given} is out of range", f"write a {bounds}")
        self.cite(name, key)
        return int(value)

    def flag(self, name: str, *keys: str, default: bool) -> bool:
        """Yes or no.

        Raises:
            UnsupportedModelError: Neither true nor false.
        """
        if (found := self.get(*keys)) is None:
            self.say(name, keys[0], default)
            return default
        key, value = found
        if not isinstance(value, bool):
            self.refuse(key, f"{key} = {_show(value)} is not true or false", "write true or false")
        self.cite(name, key)
        return value

    def only(self, key: str, *allowed: Any, reason: str) -> None:
        """Refuse the network if a field has a value other than those understood (or null)."""
        self.seen.add(key)
        value = self.data.get(key)
        if value is not None and not any(_same(value, entry) for entry in allowed):
            wanted = " or ".join(_show(entry) for entry in allowed)
            self.refuse(
                key,
                f"{key} = {_show(value)} is not understood: {reason}",
                f"only {wanted} can be costed for {self.model_type}",
            )

    def cite(self, name: str, key: str) -> None:
        """Remember which key a field of the architecture was read from."""
        self.provenance[name] = f"{key} = {_show(self.data[key])}, {self.where(key)}"

    def say(self, name: str, key: str, value: object, why: str = "") -> None:
        """Remember that a field of the architecture was not in the file."""
        reason = why or f"default of model_type {self.model_type} when absent"
        self.provenance[name] = f"{key} = {_show(value)}, {reason}"

    def finish(self) -> None:
        """Refuse whatever has not been understood and may change the cost; tell the outer config.

        Raises:
            UnsupportedModelError: A number, a true, a list or a mapping under a key that nobody has
                read.
        """
        for key, value in self.data.items():
            if key in self.seen or key in HARMLESS or key.startswith("_"):
                continue
            if any(_same(value, empty) for empty in EMPTY):
                continue
            if isinstance(value, str):
                self.notes.append(f"{key:.60} = {_show(value)} is taken not to change the cost")
                continue
            self.refuse(
                key,
                f"{key:.60} = {_show(value)} is not understood for model_type {self.model_type}, "
                "and may change the cost",
                "remove the field if it does not change the network's shape",
            )
        if self.outer is not None:
            self.outer.provenance.update(self.provenance)


def refuse_infinity(fields: Fields) -> None:
    """Refuse a config that says Infinity where it could be a size.

    Python writes the word for the open end of a range of time steps, which costs nothing.

    Raises:
        UnsupportedModelError: It is anywhere else.
    """
    waiting: list[tuple[str | int, ...]] = [(key,) for key in fields.data if key not in UNBOUNDED]
    while waiting:
        keys = waiting.pop()
        value: Any = fields.data
        for key in keys:
            value = value[key]
        if isinstance(value, dict):
            waiting += [(*keys, key) for key in value]
        elif isinstance(value, list):
            waiting += [(*keys, index) for index in range(len(value))]
        elif value == inf:
            raise UnsupportedModelError(
                f"{keys[0]:.60} says Infinity, which is not a number of anything",
                hint=f"write a finite number; only {', '.join(sorted(UNBOUNDED))} may be unbounded",
                where=fields.where(*keys),
            )


def _same(left: Any, right: Any) -> bool:
    """Equality that keeps true apart from 1."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _show(value: object) -> str:
    """Value as JSON has it, short and printable."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    text = "".join(letter if letter.isprintable() else "?" for letter in text[:61])
    return text if len(text) <= 60 else text[:57] + "..."
