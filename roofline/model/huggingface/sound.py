"""Networks that hear: encoders of sound, the decoders behind them, and Whisper.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.24).
"""

from typing import Final

from msgspec import Struct

from roofline.model.architecture import Architecture, Attention, Block, CrossAttention, Linear, Mlp
from roofline.model.huggingface.common import Geometry, family, stack
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.gemma4 import gemma3n_text
from roofline.model.huggingface.llama import llama, qwen2
from roofline.model.huggingface.towers import QWEN2_5_VL_TOWER, encoder_layer
from roofline.model.huggingface.vision import Wrapper, wrapped
from roofline.model.tower import AudioTower, transformer
from roofline.records import replace

FRAMES_PER_S: Final = 100
"""Frames of a spectrogram, one every 10 ms. [1/s] Source: Radford et al. 2022 (arXiv 2212.04356),
section 2.2."""
STRIDE: Final = 2
"""Frames that the second convolution of Whisper makes one position of. [1]"""
TAPS: Final = 3
"""Frames that a convolution sees. [1]"""
NAMED: Final = {
    "width": "d_model",
    "layers": "encoder_layers",
    "heads": "encoder_attention_heads",
    "inner": "encoder_ffn_dim",
}
LIKE_TEXT: Final = {
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
}
"""Keys of an encoder's sizes: Whisper's own, and those that decoders have."""
TINY: Final = {"width": 384, "layers": 4, "heads": 6, "inner": 1536, "mel": 80}
LARGE: Final = {"width": 1280, "layers": 32, "heads": 20, "inner": 5120, "mel": 128}
"""Default sizes: Whisper tiny, and large-v3, which others start from."""
INERT: Final = frozenset({"scale_embedding", "encoder_layerdrop"})
TOKENS: Final = frozenset({"audio_token_id", "audio_token_index"})
"""Ids of the token in whose place sound stands."""


class WhisperEncoder(Struct, frozen=True):
    """Whisper's encoder in one of its sizes."""

    width: int
    layers: int
    heads: int
    inner: int
    mel: int
    positions: int
    """Width D, layers, heads, width of the feed-forward part, mel bins, positions of 30 s. [1]"""

    @property
    def parameters(self) -> int:
        """Convolutions, layers whose keys have no bias, the last norm. [parameter]"""
        width = self.width
        convolutions = TAPS * (self.mel + width) * width + 2 * width
        layer = encoder_layer(width, self.inner) - width
        return convolutions + self.layers * layer + 2 * width

    @property
    def table(self) -> int:
        """Sinusoids that are kept as a table. [parameter]"""
        return self.positions * self.width

    def blocks(self) -> tuple[Block, ...]:
        """Layers; before the first one both convolutions, the first of which sees every frame."""
        width, heads = self.width, self.heads
        first, *rest = transformer(
            width=width, layers=self.layers, heads=heads, inner=self.inner, pixels=1
        )
        mixer = Attention(
            heads,
            heads,
            width // heads,
            qkv_biased=2 * width,
            out_bias=True,
            rotary=False,
            cached=False,
        )
        frontend = (
            Linear("frames", STRIDE * width, TAPS * self.mel, STRIDE * width, "none"),
            Linear("frames-joined", width, TAPS * width, width, "none"),
        )
        return tuple(
            replace(block, mixer=mixer, extra=frontend if block is first else ())
            for block in (first, *rest)
        )

    @property
    def per_s(self) -> int:
        """Positions of a second of sound. [1/s]"""
        return FRAMES_PER_S // STRIDE


def whisper_encoder(
    fields: Fields, keys: dict[str, str], default: dict[str, int]
) -> WhisperEncoder:
    """Whisper's encoder, as a mapping of a config has it."""
    fields.seen |= INERT
    sizes = {
        name: fields.integer(f"audio_{name}", key, default=default[name])
        for name, key in (*keys.items(), ("mel", "num_mel_bins"))
    }
    encoder = WhisperEncoder(
        **sizes, positions=fields.integer("positions", "max_source_positions", default=1500)
    )
    if encoder.width % encoder.heads:
        fields.refuse(
            keys["heads"], f"a width of {encoder.width} does not divide over {encoder.heads} heads"
        )
    return encoder


def _part(fields: Fields, kind: str) -> Fields:
    """The mapping of the encoder of sound; refused where there is none, or it is another."""
    if not isinstance(fields.data.get("audio_config"), dict):
        fields.refuse("audio_config", "audio_config is missing or not a mapping")
    fields.seen |= TOKENS | {"audio_config"}
    own = fields.part("audio_config")
    own.only("model_type", kind, reason="it is another encoder")
    return own


def _hearing(
    body: Architecture, tower: AudioTower, parameters: int, projector: int
) -> Architecture:
    """A decoder with a tower of sound beside its others."""
    counted = {**body.other_parameters, "audio tower": parameters, "projector": projector}
    return replace(body, towers=(*body.towers, tower), other_parameters=counted)


@family("qwen2_audio")
def qwen2_audio(fields: Fields) -> Architecture:
    """Qwen2-Audio: Whisper's encoder over 30 s, two positions averaged, one matrix into Qwen2."""
    body = wrapped(Wrapper({"qwen2": qwen2}), fields)
    own = _part(fields, "qwen2_audio_encoder")
    encoder = whisper_encoder(own, NAMED, LARGE)
    # A second name of ``encoder_layers``.
    own.seen |= {"num_hidden_layers"}
    own.finish()
    width, out = encoder.width, body.d_model
    tower = AudioTower(
        width=width,
        layers=encoder.blocks(),
        projector=(Linear("project", out, width, out),),
        heads=encoder.heads,
        per_s=encoder.per_s,
        joined=2,
        span_s=encoder.positions / encoder.per_s,
        longest_s=encoder.positions / encoder.per_s,
        silent=False,
    )
    return _hearing(body, tower, encoder.parameters + encoder.table, width * out + out)


@family("voxtral")
def voxtral(fields: Fields) -> Architecture:
    """Voxtral: Whisper's encoder over pieces of 30 s, four positions side by side, two matrices."""
    fields.seen |= {"projector_hidden_act"}
    if isinstance(text := fields.data.get("text_config"), dict):
        fields.only("hidden_size", text.get("hidden_size"), reason="the decoder has another")
    body = wrapped(Wrapper({"llama": llama}), fields)
    own = _part(fields, "voxtral_encoder")
    encoder = whisper_encoder(own, LIKE_TEXT, LARGE)
    own.only(
        "head_dim", encoder.width // encoder.heads, reason="heads are as wide as the width allows"
    )
    own.only("num_key_value_heads", encoder.heads, reason="each head has keys of its own")
    own.seen |= {"vocab_size"}
    own.finish()
    if encoder.inner % encoder.width:
        own.refuse("intermediate_size", "positions do not fill the width of the projector")
    out = body.d_model
    tower = AudioTower(
        width=encoder.width,
        layers=encoder.blocks(),
        projector=(
            Linear("project", out, encoder.inner),
            Linear("project-out", out, out, split="row"),
        ),
        heads=encoder.heads,
        per_s=encoder.per_s,
        joined=encoder.inner // encoder.width,
        span_s=encoder.positions / encoder.per_s,
    )
    return _hearing(
        body, tower, encoder.parameters + encoder.table, encoder.inner * out + out * out
    )


OMNI: Final = Wrapper({"qwen2_5_omni_text": qwen2}, {"": QWEN2_5_VL_TOWER})


@family("qwen2_5_omni_thinker")
def omni_thinker(fields: Fields) -> Architecture:
    """The thinker of Qwen2.5-Omni: Qwen2.5-VL, and Whisper's encoder in windows of 2 s."""
    fields.seen |= {"position_id_per_seconds", "seconds_per_chunk", "user_token_id"}
    fields.seen |= {"audio_start_token_id", "audio_end_token_id"}
    body = wrapped(OMNI, fields)
    own = _part(fields, "qwen2_5_omni_audio_encoder")
    own.seen |= {"num_hidden_layers"}
    encoder = whisper_encoder(own, NAMED, LARGE)
    window = own.integer("audio_window", "n_window", default=100)
    own.only("output_dim", body.d_model, reason="its outputs are read by the decoder")
    own.finish()
    out = body.d_model
    tower = AudioTower(
        width=encoder.width,
        layers=encoder.blocks(),
        projector=(Linear("project", out, encoder.width, out),),
        heads=encoder.heads,
        per_s=encoder.per_s,
        joined=2,
        squares=window,
    )
    # Sinusoids are computed; two tokens of its own stand around sound.
    heard = replace(body, model_type=fields.model_type)
    return _hearing(heard, tower, encoder.parameters + 2 * out, encoder.width * out + out)


@family("qwen2_5_omni")
def omni(fields: Fields) -> Architecture:
    """Qwen2.5-Omni's thinker, which writes the text; what speaks it is left out."""
    if not isinstance(fields.data.get("thinker_config"), dict):
        fields.refuse("thinker_config", "thinker_config is missing or not a mapping")
    fields.seen |= {"thinker_config", "talker_config", "token2wav_config"}
    fields.seen |= {"enable_audio_output", "enable_talker"}
    own = replace(fields.part("thinker_config"), model_type="qwen2_5_omni_thinker")
    thinker = omni_thinker(own)
    own.finish()
    fields.notes += own.notes
    if fields.data.get("talker_config"):
        fields.notes.append("the talker and what makes its sound are left out")
    return replace(thinker, model_type=fields.model_type)


CONFORMER: Final = 4
"""Width of a Conformer's feed-forward parts over that of its layers. [1]"""
SOFT_TOKENS: Final = 188
"""Tokens that Gemma 3n's processor makes of every recording: ``audio_seq_length``."""


@family("gemma3n")
def gemma3n(fields: Fields) -> Architecture:
    """Gemma 3n with its Conformer of sound, without the convolutions that see.

    Two feed-forward parts stand around attention to 24 neighbours and a convolution; four frames
    make a position, four positions a token. Relative positions are in the parameters alone.
    """
    fields.seen |= {"vision_soft_tokens_per_image", "boa_token_id", "eoa_token_id"}
    fields.seen |= TOKENS | {"eoa_token_index"}
    tokens = fields.integer("audio_tokens", "audio_soft_tokens_per_image", default=SOFT_TOKENS)
    body = wrapped(Wrapper({"gemma3n_text": gemma3n_text}, tied=True), fields)
    if not fields.data.get("audio_config"):
        return body
    own = _part(fields, "gemma3n_audio")
    own.seen |= {"vocab_offset", "gradient_clipping", "sscp_conv_group_norm_eps"}
    own.seen |= {"conf_attention_logit_cap", "conf_residual_weight", "sscp_conv_eps"}
    own.only("conf_attention_context_right", 0, reason="positions see what comes before them")
    own.only("sscp_conv_channel_size", [128, 32], reason="other convolutions")
    own.only("sscp_conv_kernel_size", [[3, 3], [3, 3]], reason="other convolutions")
    own.only("sscp_conv_stride_size", [[2, 2], [2, 2]], reason="other convolutions")
    width = own.integer("audio_width", "hidden_size", default=1536)
    layers = own.integer("audio_layers", "conf_num_hidden_layers", default=12)
    heads = own.integer("audio_heads", "conf_num_attention_heads", default=8)
    mel = own.integer("audio_mel", "input_feat_size", default=128)
    chunk = own.integer("audio_chunk", "conf_attention_chunk_size", default=12)
    left = own.integer("audio_left", "conf_attention_context_left", default=13)
    taps = own.integer("audio_taps", "conf_conv_kernel_size", default=5)
    joined = own.integer("audio_joined", "conf_reduction_factor", default=4)
    marks = own.integer("audio_vocab", "vocab_size", default=128)
    own.finish()
    if width % heads or mel % 4:
        own.refuse("hidden_size", "heads or mel bins do not divide")
    inner, out = CONFORMER * width, body.d_model
    mixer = Attention(heads, heads, width // heads, rotary=False, cached=False)
    layer = Block(
        mixer,
        Mlp(inner, gated=False, activation="silu"),
        norms=9,
        norm_parameters=9 * width,
        extra=(
            Linear("start-up", inner, width),
            Linear("start-down", width, inner, split="row"),
            Linear("conv-in", 2 * width, width),
            Linear("conv-out", width, width, split="row"),
        ),
    )
    # Convolutions of 3 × 3 and strides of 2 over time and bins: 1 → 128 → 32 channels.
    first, second = 128, 32
    frontend = (
        Linear("frames", 2 * (mel // 2) * first, 9, split="none"),
        Linear("frames-joined", (mel // 4) * second, 9 * first, split="none"),
        Linear("frames-in", width, (mel // 4) * second, split="none"),
    )
    start = replace(layer, extra=(*frontend, *layer.extra))
    tower = AudioTower(
        width=width,
        layers=(start, *[layer] * (layers - 1)),
        projector=(Linear("project", out, width),),
        heads=heads,
        squares=chunk + left - 1,
        per_s=FRAMES_PER_S // 4,
        joined=joined,
        longest_s=30.0,
        always=tokens,
    )
    matrices = sum(linear.parameters for linear in layer.linears(width))
    # Positions have a matrix, too, and each channel of a head a scale; every channel has its taps.
    each = matrices + width * width + width // heads + (9 + taps) * width
    before = 10 * first + (9 * first + 1) * second + (mel // 4) * second * width
    return _hearing(body, tower, before + layers * each, marks * width + 2 * width + width * out)


@family("whisper")
def whisper(fields: Fields) -> Architecture:
    """Whisper: a decoder whose layers attend to themselves, then to what the encoder put out.

    The encoder hears 30 s once for each prompt. Each layer of the decoder is two here: attention to
    the text, and attention to the sound with the feed-forward part.
    """
    fields.only("is_encoder_decoder", True, reason="its decoder reads what the encoder wrote")
    fields.seen |= {"use_weighted_layer_sum", "classifier_proj_size", "apply_spec_augment"}
    fields.seen |= {key for key in fields.data if key.startswith("mask_")}
    fields.seen |= {"median_filter_width", "decoder_layerdrop", "num_hidden_layers", "max_length"}
    encoder = whisper_encoder(fields, NAMED, TINY)
    width, positions = encoder.width, encoder.positions
    heads = fields.integer("heads", "decoder_attention_heads", default=6)
    if width % heads:
        fields.refuse(
            "decoder_attention_heads", f"a width of {width} does not divide over {heads} heads"
        )
    layers = fields.integer("layers", "decoder_layers", default=4)
    inner = fields.integer("mlp_width", "decoder_ffn_dim", default=1536)
    context = fields.integer("max_context", "max_target_positions", default=448)
    vocab = fields.integer("vocab", "vocab_size", default=51865)
    head_dim = width // heads
    # Keys have no bias.
    text = Attention(heads, heads, head_dim, qkv_biased=2 * width, out_bias=True, rotary=False)
    sound = CrossAttention(heads, head_dim, positions)
    mlp = Mlp(inner, False, True, True, "gelu")
    both = (Block(text, None, 1, 2 * width), Block(sound, mlp, 2, 4 * width))
    tower = AudioTower(
        width=width,
        layers=encoder.blocks(),
        # Keys and values of every layer of the decoder, of which the values have a bias.
        projector=(Linear("cross-kv", 2 * width, width, width),) * layers,
        heads=encoder.heads,
        per_s=encoder.per_s,
        joined=1,
        span_s=positions / encoder.per_s,
        longest_s=positions / encoder.per_s,
        crossed=True,
    )
    fields.notes.append(
        f"an encoder-decoder: each prompt has {positions / encoder.per_s:g} s of sound beside its "
        "text; a layer of the decoder is counted as two"
    )
    body = stack(
        fields,
        Geometry(width, layers, heads, heads, head_dim, vocab, context),
        both * layers,
        tied=True,
        position_rows=context,
        final_norm_parameters=2 * width,
    )
    keys = layers * (2 * width * width + width)
    return _hearing(body, tower, encoder.parameters + encoder.table, keys)
