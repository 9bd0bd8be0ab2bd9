"""Figures of a file as measurements, scaled to base units, and engines by name."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from roofline.interop.results.node import LocatedValue, count, number
from roofline.interop.results.run import STATISTIC, MeasuredFigure
from roofline.units import PREFIX

AVERAGES: Final = {"mean": "mean", "avg": "mean", "average": "mean", "median": "p50"}
"""Means and medians by the names of other tools."""
RANGES: Final = {"minimum": "min", "maximum": "max", "stdev": "std", "stddev": "std"}


def statistic(key: str) -> str:
    """Our name of a statistic; empty where the key is none.

    >>> statistic("avg"), statistic("P99"), statistic("values")
    ('mean', 'p99', '')
    """
    name = key.lower()
    name = AVERAGES.get(name, RANGES.get(name, name))
    return name if STATISTIC.fullmatch(name) else ""


def one(
    node: LocatedValue,
    key: str,
    metric: str,
    definition: str,
    *,
    scale: float = 1.0,
    of: str = "mean",
) -> list[MeasuredFigure]:
    """The figure at a key, where it was measured.

    Args:
        node, key: Mapping and key of the figure.
        metric, definition, of: Fields of `MeasuredFigure`; the statistic.
        scale: Base units in one unit of the file. [1]
    """
    value = number(node, key)
    return [] if value is None else [MeasuredFigure(metric, of, value * scale, key, definition)]


def several(
    node: LocatedValue | None, metric: str, definition: str, *, scale: float = 1.0
) -> list[MeasuredFigure]:
    """The statistics of a mapping, those that were measured.

    Args:
        node: Mapping from what `statistic` knows to numbers; None where there is none.
        metric, definition, scale: As for `one`.
    """
    if node is None:
        return []
    out: dict[str, MeasuredFigure] = {}
    for key in node.names():
        name = statistic(key)
        value = number(node, key) if name else None
        if value is not None:
            field = f"{node.path}.{key}"
            out.setdefault(name, MeasuredFigure(metric, name, value * scale, field, definition))
    return list(out.values())


def latencies(
    node: LocatedValue, latency: str, *, suffix: str = "", scale: float = 1.0
) -> Iterator[MeasuredFigure]:
    """Times of requests and tokens as the benchmarks of vLLM and its relatives define them.

    Args:
        node: Mapping that has keys like ``p99_ttft_ms``.
        latency: Name that the keys give the time of a whole request.
        suffix: Suffix of the keys.
        scale: As for `one`.
    """
    for metric, name, definition in (
        ("ttft", "ttft", "from sending a request to its first token"),
        ("tpot", "tpot", "(latency - TTFT) / (tokens - 1) of each request"),
        ("itl", "itl", "gaps between chunks of all requests together"),
        ("latency", latency, "from sending a request to its last token"),
    ):
        end = f"_{name}{suffix}"
        for key in node.names():
            found = statistic(key.removesuffix(end)) if key.endswith(end) else ""
            if found:
                yield from one(node, key, metric, definition, scale=scale, of=found)


def failures(failed: float | None) -> tuple[str, ...]:
    """Sentence about requests that failed, none where there are none.

    >>> failures(1), failures(2000), failures(0)
    (('1 request failed and is left out.',), ('2,000 requests failed and are left out.',), ())
    """
    if not failed:
        return ()
    noun, verb = ("request", "is") if failed == 1 else ("requests", "are")
    return (f"{failed:,.0f} {noun} failed and {verb} left out.",)


def spread(low: float | None, mean: float | None, high: float | None) -> float | None:
    """Half of a range over the mean, None where one of them is unknown. [1]

    >>> spread(80.0, 100.0, 120.0)
    0.2
    """
    if not low or not mean or not high:
        return None
    return max(high - low, 0.0) / (2 * mean)


def client(run: LocatedValue, *at_once: str) -> dict[str, Any]:
    """Load and mean lengths, fields of `RunScenario`, as the clients of vLLM and SGLang write them.

    Args:
        run: What a client wrote.
        at_once: Beginnings of the words in place of a rate that say that all were sent at once.
    """
    answered = run.at("completed").count()
    prompt, output = (run.at(f"total_{side}_tokens").number() for side in ("input", "output"))
    asked, clients = run.get("request_rate"), count(run, "max_concurrency")
    rate = None
    if asked is not None and not str(asked.value).lower().startswith(at_once):
        rate = asked.number() or None
    return {
        "load": "open" if rate else "closed" if clients else "burst",
        "concurrency": clients,
        "rate": rate,
        "requests": answered or None,
        "prompt": prompt / answered if prompt and answered else None,
        "output": output / answered if output and answered else None,
    }


SECONDS: Final[Mapping[str, float]] = {
    "ns": PREFIX["n"],
    "nanoseconds": PREFIX["n"],
    "us": PREFIX["µ"],
    "µs": PREFIX["µ"],
    "microseconds": PREFIX["µ"],
    "ms": PREFIX["m"],
    "milliseconds": PREFIX["m"],
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
}


def seconds_in(unit: LocatedValue) -> float:
    """Seconds in a unit of time; DocumentError where it is none. [s]"""
    name = unit.text()
    if name.lower() not in SECONDS:
        raise unit.error(
            f"{name!r:.40} is no unit of time that is known", f"{', '.join(SECONDS)} are"
        )
    return SECONDS[name.lower()]


ENGINES: Final[Mapping[str, str]] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "trt": "trtllm",
    "trtllm": "trtllm",
    "tensorrt": "trtllm",
    "tensorrt-llm": "trtllm",
    "tensorrtllm": "trtllm",
    "lmdeploy": "lmdeploy-turbomind",
    "deepspeed-mii": "Deepspeed-MII",
    "llama.cpp": "llama.cpp",
    "tgi": "tgi",
    "pytorch": "hf-transformers",
}
"""Engines by the names that clients give their endpoints; one of OpenAI's kind says nothing."""
_ENDS: Final = ("-oai-chat", "-oai", "-native", "-chat", "-embedding", "-mtp")


def engine_of(name: str) -> str:
    """Engine of an endpoint; empty where its name says none.

    >>> engine_of("sglang-oai-chat"), engine_of("openai-chat"), engine_of("dynamo-trt")
    ('sglang', '', 'trtllm')
    """
    bare = name.strip().lower().replace("_", "-").removeprefix("dynamo-")
    for end in _ENDS:
        bare = bare.removesuffix(end)
    return ENGINES.get(bare, "")


def only(names: Iterable[str]) -> str:
    """The one name of some that are alike; empty where they differ, or there is none."""
    found = set(names)
    return found.pop() if len(found) == 1 else ""
