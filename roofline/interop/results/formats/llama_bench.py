"""``llama-bench -o json | jsonl | csv | md``.

Fields as in `tools/llama-bench/llama-bench.cpp` and its README, of llama.cpp builds 1300 to 9900
(github.com/ggml-org/llama.cpp). A test is a prompt alone (``pp``: ``n_prompt`` tokens), an answer
alone (``tg``: ``n_gen`` tokens), or both together (``pg``), after ``n_depth`` tokens that are in
the cache already, from build 5163 on. ``avg_ts`` are tokens a second and ``avg_ns`` nanoseconds of
a test. Markdown says ``pp 512`` in old builds, ``pp512`` and ``pp512 @ d1024`` in newer ones, names
neither file nor GPU, and rounds.
"""

import re
from collections.abc import Iterator
from typing import Final

from roofline.interop.results.content import Content, bars, header, rows
from roofline.interop.results.measuring import only
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import (
    Load,
    MeasuredFigure,
    MeasuredRun,
    ResultFormat,
    RunScenario,
)
from roofline.units import PREFIX

_QUANT: Final = re.compile(
    r"[-_. ](I?Q\d(?:_K_[SML]|_K|_\d|_XXS|_XS|_NL|_S|_M)?|BF16|F16|F32|MXFP4)$", re.IGNORECASE
)
_SPLIT: Final = re.compile(r"-\d{5}-of-\d{5}$")
_SIZES: Final = {"small": "S", "medium": "M", "large": "L"}


def of_file(path: str) -> tuple[str, str]:
    """Model and number format by the name of a file.

    >>> of_file("models/Qwen2.5-7B-Instruct-Q4_K_M.gguf")
    ('Qwen2.5-7B-Instruct', 'Q4_K_M')
    """
    name = re.split(r"[\\/]", path)[-1]
    name = _SPLIT.sub("", re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE))
    found = _QUANT.search(name)
    return (name[: found.start()], found[1].upper()) if found else (name, "")


def of_type(name: str) -> str:
    """Number format in llama.cpp's name of a model.

    >>> of_type("llama 8B Q4_K - Medium"), of_type("llama 7B mostly Q8_0")
    ('Q4_K_M', 'Q8_0')
    """
    plain, _, size = name.partition(" - ")
    found = _QUANT.search(plain)
    if found is None:
        return ""
    letter = _SIZES.get(size.strip().lower(), "")
    return f"{found[1].upper()}{f'_{letter}' if letter else ''}"


_NEEDED: Final = {"model_type", "n_prompt", "n_gen", "avg_ts"}
_TEST: Final = re.compile(
    r"(?:pp\s*(?P<pp>\d+))?\s*\+?\s*(?:tg\s*(?P<tg>\d+))?(?:\s*@\s*d\s*(?P<depth>\d+))?"
)

_HEAD: Final = re.compile(r"^[^\S\n]*+\|.*", re.MULTILINE)
"""The first line of the first table in Markdown."""


def _recognises(content: Content) -> bool:
    if content.first.keys() >= _NEEDED or set(header(content)) >= _NEEDED:
        return True
    if content.documents is not None:
        return False
    head = _HEAD.search(content.text)
    names = {cell.strip().lower() for cell in head[0].split("|")} if head else set()
    return names >= {"model", "test", "t/s"}


def _read(content: Content) -> Iterator[MeasuredRun]:
    if content.documents is not None:
        found = content.records()
    elif set(header(content)) >= _NEEDED:
        found = rows(content)
    else:
        found = [_unfolded(row) for row in bars(content) if "test" in row.value]
    for row in found:
        yield _run(row)


def _unfolded(row: LocatedValue) -> LocatedValue:
    """A row of Markdown as one of CSV would be."""
    test = row.at("test")
    parts = _TEST.fullmatch(test.text())
    if parts is None or not (parts["pp"] or parts["tg"]):
        raise row.error(f"{test.text()!r:.30} is no test", "pp512, tg128 and pp512+tg128 are")
    value = {
        "model_type": row.at("model").text(),
        "n_prompt": parts["pp"] or "0",
        "n_gen": parts["tg"] or "0",
        "n_depth": parts["depth"] or "0",
        "avg_ts": row.at("t/s").text().partition("±")[0].strip(),
    }
    return LocatedValue(value, row.source)


def _run(row: LocatedValue) -> MeasuredRun:
    name = text(row, "model_filename")
    model, stored = of_file(name) if name else ("", "")
    prompt, output = row.at("n_prompt").count(), row.at("n_gen").count()
    depth = count(row, "n_depth") or 0
    load: Load = "batch" if prompt and output else "prefill" if prompt else "decode"
    devices = [each.strip() for each in text(row, "gpu_info").split(",") if each.strip()]
    build = row.get("build_number")
    return MeasuredRun(
        "llama-bench",
        row.where,
        RunScenario(
            model=model,
            gpu=only(devices),
            gpus=len(devices) or None,
            engine="llama.cpp",
            weights=stored or of_type(row.at("model_type").text()),
            kv=text(row, "type_k"),
            load=load,
            concurrency=1,
            prompt=float(prompt) if prompt else None,
            output=float(output) if output else None,
            depth=float(depth),
            beyond=f"a prompt behind {depth:,} cached tokens" if depth and prompt else "",
        ),
        tuple(_measured(row, prompt, output)),
        version="" if build is None else f"build {build.count()}",
    )


def _measured(row: LocatedValue, prompt: int, output: int) -> Iterator[MeasuredFigure]:
    rate = row.at("avg_ts").number()
    spent = number(row, "avg_ns")
    seconds = spent * PREFIX["n"] if spent else (prompt + output) / rate if rate else 0.0
    if prompt and output:
        meaning = "prompt and output tokens over the time of both"
        yield MeasuredFigure("total_throughput", "mean", rate, "avg_ts", meaning)
        yield MeasuredFigure("latency", "mean", seconds, "avg_ns", "of a prompt and its answer")
    elif prompt:
        yield MeasuredFigure("input_throughput", "mean", rate, "avg_ts", "tokens of a prompt alone")
        yield MeasuredFigure("ttft", "mean", seconds, "avg_ns", "the time of a prompt alone")
    elif output and rate:
        yield MeasuredFigure(
            "output_throughput", "mean", rate, "avg_ts", "tokens of an answer alone"
        )
        yield MeasuredFigure("tpot", "mean", 1.0 / rate, "avg_ts", "1 / tokens a second")


FORMAT = ResultFormat(
    "llama-bench", "llama-bench (JSON, CSV or Markdown)", _recognises, _read, "builds 1300 to 9900"
)
