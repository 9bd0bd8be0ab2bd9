"""Number formats: what a stored value weighs, and which arithmetic it is multiplied in.

`formats` says what a format is, `naming` finds one by the name people type, `products` says what
happens to a pair of weights and activations on one machine.
"""

from roofline.model.precision.formats import FORMATS, KV_FORMATS, NumberFormat
from roofline.model.precision.naming import named
from roofline.model.precision.products import (
    Precision,
    Product,
    dequantisation,
    product,
    quantisation,
    resolve,
)

__all__ = [
    "FORMATS",
    "KV_FORMATS",
    "NumberFormat",
    "Precision",
    "Product",
    "dequantisation",
    "named",
    "product",
    "quantisation",
    "resolve",
]
