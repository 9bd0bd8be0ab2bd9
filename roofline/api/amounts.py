"""Shares and prices as people write them."""

from collections.abc import Sequence

from roofline.errors import InputError
from roofline.units import counted


def headroom_of(asked: float | str) -> tuple[float, int]:
    """Share by which traffic may grow, and replicas that may be lost.

    Raises
    ------
    InputError
        It is neither.

    Examples
    --------
    >>> headroom_of("30%"), headroom_of("n+1"), headroom_of(0.5)
    ((0.3, 0), (0.0, 1), (0.5, 0))
    """
    hint = "write 30%, or n+1 for a replica to spare"
    text = str(asked).strip().lower().replace(" ", "")
    if not text.startswith("n+"):
        return share_of("headroom", asked, hint), 0
    if not text[2:].isdecimal() or len(text) > 6:
        raise InputError(f"headroom {asked!r:.40} is no number of replicas", hint=hint)
    return 0.0, int(text[2:])


def share_of(what: str, asked: float | str, hint: str) -> float:
    """A share, written as such or in percent.

    Raises
    ------
    InputError
        It is neither.
    """
    text = str(asked).strip()
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise InputError(f"{what} {asked!r:.40} is no share", hint=hint) from None
    return value / 100.0 if text.endswith("%") else value


def prices_of(asked: float | Sequence[float] | None, number: int) -> tuple[float | None, ...]:
    """Price of each kind of device: one for all, or one each; None for the assumed one. [$/h]

    Raises
    ------
    InputError
        There are more or fewer than kinds.
    """
    if asked is None or isinstance(asked, int | float):
        return (asked,) * number
    given = tuple(asked)
    if len(given) in (0, 1):
        return (given or (None,)) * number
    if len(given) != number:
        raise InputError(
            f"{counted(len(given), 'price')} for {counted(number, 'kind')} of GPU",
            hint="give one --price for all, or one for each --gpu in their order",
        )
    return given
