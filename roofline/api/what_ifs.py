"""Questions of a plan with something changed: another GPU, network, format, price or rate."""

from collections.abc import Mapping, Sequence
from math import inf, nan
from typing import Any, Final

from roofline.api import setting
from roofline.api.parameters import Planning
from roofline.errors import InputError

SET: Final = ("gpu", "node", "model", "engine", "weights", "kv", "workload")
"""Parameters that a what-if replaces."""
SCALED: Final = ("price", "rate", "gpus")
"""Parameters that it replaces, or changes by a share."""
HINT: Final = (
    "write changes like gpu=FILE.yaml, price=-30%, model=NAME, weights=fp8, rate=+50%, several "
    "with commas"
)


def changes_of(text: str) -> dict[str, str]:
    """Changes by name; InputError where the text has other words.

    Examples:
        >>> changes_of("gpu=b200-sxm, price=-30%")
        {'gpu': 'b200-sxm', 'price': '-30%'}
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = (each.strip() for each in part.partition("="))
        if name not in (*SET, *SCALED) or not value or name in found:
            raise InputError(f"what if {text!r:.60}", hint=HINT)
        found[name] = value
    return found


def changed(asked: Planning, text: str, rate: float, gpus: int) -> Planning:
    """The question with changes.

    Args:
        asked: As it was asked.
        text: Changes.
        rate: Requests a second that it was asked for. [1/s]
        gpus: Devices that it may have. [1]

    Raises:
        InputError: A change has no meaning.
    """
    values: dict[str, Any] = dict(vars(asked))
    found = changes_of(text)
    for name in SET:
        if name in found:
            values[name] = found[name]
    if "gpu" in found:
        values |= {"node": found.get("node"), "usd_per_hour": None}
    if "gpus" in found:
        values["gpus"] = round(_scaled(found["gpus"], gpus, text))
    if "rate" in found:
        values["rate"] = _scaled(found["rate"], rate, text)
    if "price" in found:
        values["usd_per_hour"] = [
            _scaled(found["price"], each, text) for each in _prices(values, text)
        ]
    return Planning(**values | {"what_if": ()})


def _prices(values: Mapping[str, Any], text: str) -> Sequence[float]:
    """Price of each GPU of a question. [$/h]"""
    gpus, paid = values["gpu"], values["usd_per_hour"]
    devices = list(gpus) if isinstance(gpus, list | tuple) else [gpus]
    known = setting.prices_of(paid, devices, values["node"])
    found = [
        setting.machine_of(device, values["node"], usd)[0].usd_per_hour
        for device, usd in zip(devices, known, strict=True)
    ]
    if not all(found):
        raise InputError(f"what if {text!r:.60}: a GPU has no price", hint="write price=3.50")
    return [float(each or 0.0) for each in found]


def _scaled(value: str, base: float, text: str) -> float:
    """A number above 0, or a base that is changed by a share."""
    try:
        if value.endswith("%"):
            found = base * (1.0 + float(value.removesuffix("%")) / 100.0)
        else:
            found = float(value)
    except ValueError:
        found = nan
    if not 0 < found < inf:
        raise InputError(f"what if {text!r:.60}", hint=HINT)
    return found
