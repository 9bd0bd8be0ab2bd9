"""What a quantiser did to a checkpoint, whoever wrote it down."""

from dataclasses import dataclass

from roofline.model.huggingface.storage.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Rule:
    """Modules that have a format of their own: the first rule that holds decides."""

    pattern: Pattern
    """Which modules."""
    format: str | None
    """Name of the number format; empty for one that is not quantised, None for one that is as it
    would be without the rule."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """Formats of the matrices of a checkpoint."""

    label: str
    """What the quantiser calls it: ``"awq"``, ``"modelopt NVFP4"``."""
    default: str
    """Format of linear layers that no rule names; empty where they are not quantised."""
    rules: tuple[Rule, ...] = ()
    """Exceptions, in order."""
    head: bool = False
    """Whether the LM head is one of the linear layers."""
    experts: str = ""
    """Format of routed experts where it is not the default."""
    kv: str = ""
    """Format of the cache that the checkpoint has scales for; may be empty."""
