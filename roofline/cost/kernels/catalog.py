"""Calibrated forms by their names in calibration files."""

from collections.abc import Mapping
from typing import Final

from roofline.cost.kernels import (
    collective,
    decode,
    encoder,
    exchange,
    experts,
    hyper,
    latent,
    latent_module,
    latent_prefill,
    mlp,
    pointwise,
    prefill,
    processor,
    recurrent,
    sparse,
)
from roofline.cost.kernels.form import Form
from roofline.cost.kernels.gemm import CYCLED, EAGER, GEMM, linear
from roofline.cost.kernels.pointwise import CONVERSION, POINTWISE, QUANTIZE, stream

PACKED: Final = 0.5 + 4.0 / 128.0
"""Bytes of a 4-bit weight with a 16-bit scale and a 16-bit zero point for each 128. [B]"""


def _dashed(name: str) -> str:
    return name.replace("_", "-")


FORMS: Final[Mapping[str, Form]] = {
    **processor.FORMS,
    **{f"gemm-{_dashed(name)}": form for name, form in GEMM.items()},
    **{f"gemm-eager-{_dashed(name)}": form for name, form in EAGER.items()},
    **{
        f"gemm-{copies}-{_dashed(name)}": form
        for copies, forms in CYCLED.items()
        for name, form in forms.items()
    },
    "product-4": linear(4.0, output=4.0),
    "product-2": linear(2.0),
    "product-int8": linear(1.0, quantised=True, output=4.0),
    "product-packed": linear(2.0, stored=PACKED),
    "decode": decode.FORM,
    "decode-own": decode.OWN,
    "prefill": prefill.FORM,
    "prefill-own": prefill.OWN,
    "latent-decode": latent.DECODE,
    "latent-prefill": latent_prefill.FORM,
    "latent-inside": latent_prefill.INSIDE,
    "latent-absorbed": latent_module.ABSORBED,
    "latent-expanded": latent_module.EXPANDED,
    "latent-heads": latent_module.HEADS,
    "latent-heads-wide": latent_module.WIDE_HEADS,
    **sparse.FORMS,
    "experts": experts.FORM,
    "experts-eager": experts.EAGER,
    "experts-mega": experts.MEGA,
    "exchange": exchange.FORM,
    "convolution": recurrent.CONVOLUTION,
    "convolution-step": recurrent.CONVOLUTION_STEP,
    "convolution-token": recurrent.CONVOLUTION_TOKEN,
    "scan": recurrent.SCAN,
    "recurrent-step": recurrent.STEP,
    "recurrent-token": recurrent.TOKEN,
    "encoder-attention": encoder.FORM,
    "gated-mlp": mlp.FORM,
    **{f"hyper-{op}": form for op, form in hyper.HYPER.items()},
    **{f"conversion-{_dashed(op)}": form for op, form in CONVERSION.items()},
    "alltoall": exchange.ALLTOALL,
    "memory": pointwise.ARRAY,
    "roof": pointwise.ROOF,
    **{f"pass-{traffic}": stream("pointwise", float(traffic)) for traffic in (4, 6, 8, 12)},
    **{f"pointwise-{_dashed(name)}": form for name, form in POINTWISE.items()},
    **{f"quantize-{_dashed(name)}": form for name, form in QUANTIZE.items()},
    **{
        f"collective-{_dashed(op)}": collective.form(op, paths)
        for op, paths in collective.NCCL.items()
    },
    **{
        f"collective-{library}{_dashed(op)}": collective.form(op, paths)
        for library, each in (
            ("custom-", collective.CUSTOM),
            ("few-", collective.FEW_NCCL),
            ("custom-few-", collective.FEW_CUSTOM),
        )
        for op, paths in each.items()
    },
}
"""``gemm-…``: linear layers by what is multiplied, fp8 with its quantisation; ``-eager-`` launched
one by one, ``-cycled-`` and ``-filling-`` with few copies of the weights in turn. ``product-…``:
the product alone, by bytes of an operand; of 8-bit integers with the conversion of the input and a
wide result. ``pass-…``: one pass over rows, by bytes read and written per element of the width."""


def name_of(form: Form) -> str:
    """Name of a form in calibration files.

    >>> name_of(decode.FORM)
    'decode'
    """
    return next(name for name, each in FORMS.items() if each is form)
