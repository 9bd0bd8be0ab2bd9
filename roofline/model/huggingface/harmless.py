"""Fields of a config that never change what a network costs."""

from typing import Final

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
    initializer_range initializer_factor init_std init_config init_device init_method_std

    rms_norm_eps layer_norm_eps layer_norm_epsilon layernorm_epsilon norm_eps norm_epsilon
    rope_theta rope_scaling rope_parameters rope_ratio rope_local_base_freq rotary_pct rotary_dim
    rotary_emb_base rotary_emb_fraction rotary_base partial_rotary_factor rope_pct rotary
    rope_percent rotary_percent original_max_position_embeddings use_dynamic_ntk use_logn_attn
    original_rope alibi_bias_max use_mrope mrope_section

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
