"""Every form of GPU kernels, by the name that calibration files know it by."""

from collections.abc import Mapping
from typing import Final

from roofline.cost.kernels import decode, exchange, experts, latent, latent_module, prefill
from roofline.cost.kernels.form import Form
from roofline.cost.kernels.gemm import GEMM
from roofline.cost.kernels.pointwise import POINTWISE, QUANTIZE

FORMS: Final[Mapping[str, Form]] = {
    **{f"gemm-{name}": form for name, form in GEMM.items()},
    **{f"quantize-{name}": form for name, form in QUANTIZE.items()},
    **{f"pointwise-{name}": form for name, form in POINTWISE.items()},
    "prefill-attention": prefill.FORM,
    "decode-attention": decode.FORM,
    "latent-decode": latent.DECODE,
    "latent-prefill": latent.PREFILL,
    "latent-module-decode": latent_module.ABSORBED,
    "latent-module-prefill": latent_module.EXPANDED,
    "latent-heads": latent_module.HEADS,
    "moe": experts.FORM,
    "expert-exchange": exchange.FORM,
}


def name_of(form: Form) -> str:
    """Name of a form.

    >>> name_of(decode.FORM)
    'decode-attention'
    """
    return next(name for name, each in FORMS.items() if each is form)
