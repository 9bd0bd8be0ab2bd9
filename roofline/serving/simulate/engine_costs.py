"""What an engine's own software adds to the steps of a device."""

from dataclasses import dataclass

from roofline.errors import InputError


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """Overheads of an engine; by default none. All are assumed unless a profile says otherwise.

    Attributes
    ----------
    step_s
        Added to every step. [s]
    sequence_s
        Added to a step for each sequence that decodes. [s]
    prefill_s
        Added to a step that prefills. [s]
    front_end_s
        What a front end takes for each sequence that decodes: no step is shorter than all of
        them together. [s]
    request_s
        Between a request's arrival and its place in the queue. [s]
    decode_gain, prefill_gain
        Factors on the device's time of decode, and on what prefill adds to it. [1]

    Notes
    -----
    t = max(c_fe·B, g_d·decode + g_p·prefill + c_step + c_seq·B + c_pre).
    """

    step_s: float = 0.0
    sequence_s: float = 0.0
    prefill_s: float = 0.0
    front_end_s: float = 0.0
    request_s: float = 0.0
    decode_gain: float = 1.0
    prefill_gain: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for name in ("step_s", "sequence_s", "prefill_s", "front_end_s", "request_s"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise InputError(
                    f"{name.removesuffix('_s').replace('_', ' ')} overhead is {value:g} s",
                    hint="give a time from 0 on",
                )
        for name in ("decode_gain", "prefill_gain"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise InputError(
                    f"{name.replace('_', ' ')} is {value:g}", hint="give a factor above 0"
                )


IDEAL = EngineCosts()
"""No overheads."""
