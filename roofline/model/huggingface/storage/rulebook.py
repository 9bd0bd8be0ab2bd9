"""Rules of a scheme, asked about one module after another."""

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from roofline.model.huggingface.storage.scheme import Rule

MOST_NAMES: Final = 1000
MOST_EXPRESSIONS: Final = 64
"""Rules that name no layer; those with wildcards or expressions are tried on every module."""
MOST_TRIED: Final = 2000
"""Layers times rules that have to be tried in every one of them."""
_HEADS: Final = ("lm_head", "head", "output_layer")


@dataclass(slots=True)
class Book:
    """Rules of a scheme, open at a layer.

    Attributes
    ----------
    rules
        Those about the text decoder, in order.
    words
        All words in them: modules that no rule mentions need not be asked about.
    used
        Meanings of the rules that decided something.
    """

    rules: tuple[Rule, ...]
    words: frozenset[str] = frozenset()
    used: set[tuple[str, str]] = field(default_factory=set)
    _by_layer: dict[int | None, list[int]] = field(default_factory=dict)
    _known: dict[tuple[tuple[str, str], str], bool] = field(default_factory=dict)
    _page: list[Rule] = field(default_factory=list)
    _layer: int = 0

    def __post_init__(self) -> None:
        texts = " ".join(rule.pattern.text for rule in self.rules)
        self.words = frozenset(re.findall(r"[A-Za-z_]\w*", texts))
        for index, rule in enumerate(self.rules):
            self._by_layer.setdefault(rule.pattern.layer, []).append(index)

    def check(self, layers: int) -> None:
        """Refuse more work than a published list makes.

        Raises
        ------
        UnsupportedModelError
            At the first rule that is too many.
        """
        general = [self.rules[index] for index in self._by_layer.get(None, [])]
        expressions = [rule for rule in general if rule.pattern.expression is not None]
        numbered = [rule for rule in general if rule.pattern.numbered]
        for some, most in (
            (general, MOST_NAMES),
            (expressions, MOST_EXPRESSIONS),
            (numbered, max(1, MOST_TRIED // max(1, layers))),
        ):
            if len(some) > most:
                some[most].pattern.place.refuse("more modules are listed than a network has kinds")

    def open(self, layer: int) -> Hashable:
        """Turn to a layer; layers of equal blocks that give the same have the same formats."""
        general, own = self._by_layer.get(None, []), self._by_layer.get(layer, [])
        places = sorted((*general, *own)) if own else general
        self._page, self._layer = [self.rules[index] for index in places], layer
        numbered = any(rule.pattern.numbered for rule in self._page)
        return (
            tuple((rule.pattern.meaning, rule.format) for rule in self._page if rule.pattern.layer
                  is not None),
            layer if numbered else None,
        )  # fmt: skip

    def of(self, module: str) -> Rule | None:
        """The rule that decides about a module of the open layer: ``"mlp.gate_proj"``."""
        return next((rule for rule in self._page if self._holds(rule, module)), None)

    def of_head(self) -> Rule | None:
        """The rule that decides about the LM head."""
        for index in self._by_layer.get(None, []):
            pattern = self.rules[index].pattern
            if any(pattern.matches(name) for name in _HEADS):
                self.used.add(pattern.meaning)
                return self.rules[index]
        return None

    def _holds(self, rule: Rule, module: str) -> bool:
        pattern = rule.pattern
        if pattern.numbered:
            found = pattern.matches(f"layers.{self._layer}.{module}")
        else:
            key = (pattern.meaning, module)
            if key not in self._known:
                self._known[key] = pattern.matches(f"layers.0.{module}")
            found = self._known[key]
        if found:
            self.used.add(pattern.meaning)
        return found
