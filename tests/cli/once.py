"""An answer that is printed in several ways is computed once."""

from collections.abc import Callable
from typing import Any

from roofline.table import Result


def once(ask: Callable[..., Result]) -> Callable[..., Result]:
    """A question of the API that remembers its answers; how it tells its progress is no part."""
    answers: dict[str, Result] = {}

    def asked(*question: Any, **options: Any) -> Result:
        said = {name: value for name, value in options.items() if name != "progress"}
        key = repr((question, sorted(said.items())))
        if key not in answers:
            answers[key] = ask(*question, **options)
        return answers[key]

    return asked
