"""Derivations: how each figure of an answer was made, down to facts with sources."""
