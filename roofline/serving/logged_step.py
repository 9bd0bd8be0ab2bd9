"""Steps of a server as its log tells them."""

from math import nan

from msgspec import Struct


class LoggedStep(Struct, frozen=True):
    """Mean of some steps of one scheduler, as lines of a log tell it."""

    line: float
    """Number of the line, from 1. [1]"""
    running: float
    """Sequences that decode in each. [1]"""
    seconds: float
    """Time of one, with what prompts take of it. [s]"""
    tokens: float = nan
    """Tokens in the cache, of all sequences together; NaN where it is not told. [token]"""
    usage: float = nan
    """Share of the cache that is in use; NaN likewise. [1]"""
    prompt_tokens: float = 0.0
    """Tokens of prompts that are prefilled for each decode step. [token]"""
    chunk: float = 0.0
    """Tokens of prompts in a step that has any; 0 where it is not told. [token]"""
    doubt: float = 0.0
    """Share by which the tokens of prompts may be others. [1]"""
    running_sd: float = 0.0
    """Log standard deviation of the sequences, which changed meanwhile. [1]"""
    prompts: float = 1.0
    """Prompts in a step that has any. [1]"""
