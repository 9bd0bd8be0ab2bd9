"""What a quantiser did to a checkpoint, whoever wrote it down."""

from dataclasses import dataclass

from roofline.model.huggingface.storage.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Rule:
    """Modules that have a format of their own: the first rule that holds decides.

    Attributes
    ----------
    pattern
        Which modules.
    format
        Name of the number format; empty for one that is not quantised, None for one that is as it
        would be without the rule.
    """

    pattern: Pattern
    format: str | None


@dataclass(frozen=True, slots=True)
class Scheme:
    """Formats of the matrices of a checkpoint.

    Attributes
    ----------
    label
        What the quantiser calls it: ``"awq"``, ``"modelopt NVFP4"``.
    default
        Format of linear layers that no rule names; empty where they are not quantised.
    rules
        Exceptions, in order.
    head
        Whether the LM head is one of the linear layers.
    experts
        Format of routed experts where it is not the default.
    kv
        Format of the cache that the checkpoint has scales for; may be empty.
    """

    label: str
    default: str
    rules: tuple[Rule, ...] = ()
    head: bool = False
    experts: str = ""
    kv: str = ""
