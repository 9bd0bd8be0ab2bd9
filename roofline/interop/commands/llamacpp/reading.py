"""What a command tells llama.cpp."""

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.flags import Given, flags
from roofline.interop.commands.llamacpp import facts
from roofline.interop.commands.reading import Files, Read, Start, after, others
from roofline.interop.commands.served import Offloaded, Served, Share, Speculation
from roofline.interop.commands.words import Line


def starts(line: Line) -> Start | None:
    """Where a command starts a llama.cpp server."""
    return after(line.words, ("llama-server",))


def read(line: Line, files: Files) -> Read:
    """What a command tells llama.cpp; `files` is not asked.

    Raises:
        DocumentError: At a flag whose value has no meaning, or that contradicts another.
    """
    start = starts(line)
    assert start is not None, "not a command of llama.cpp"
    given = flags(line.words[start.end :], facts.KNOWN, line.source)
    notes: list[str] = []
    model, weights = _model_read(given, line, notes)
    layout = _layout_read(given)
    sequences = given.whole("parallel")
    served = Served(
        facts.NAME,
        model,
        layout,
        weights=weights,
        kv=_kv_read(given, notes),
        max_sequences=sequences,
        token_budget=_step_read(given),
        max_context=_longest_read(given, sequences),
        memory=_pool_read(given),
        prefix_caching=given.switch("cache-prompt", default=True),
        offloaded=_offloaded_read(given),
        speculation=_speculation_read(given),
    )
    extra = [value.text for value in given.positional]
    given.find("fit")
    return Read(served, (*start.before(line), *others(line), *given.unused(), *extra), tuple(notes))


def _model_read(given: Given, line: Line, notes: list[str]) -> tuple[str, str]:
    """Network that a file or a repository of weights holds, and in which format."""
    file, repository = given.find("model"), given.find("hf-repo")
    if file is not None and repository is not None:
        repository.refuse("--model names a file already", "name one of them")
    if file is None and repository is None:
        raise line.source.error(0, "no model is named", "give --model FILE.gguf")
    if file is not None:
        stem = file.text.removesuffix(facts.SUFFIX)
        name, dash, word = stem.rpartition("-")
    else:
        assert repository is not None
        stem, dash, word = repository.text.partition(":")
        name = stem = stem.removesuffix("-GGUF")
    formats = {written: ours for ours, written in facts.STORED.items()}
    if dash and word.upper() in formats:
        return name, formats[word.upper()]
    if dash and word[:1].upper() == "Q" and word[1:2].isdigit():
        notes.append(f"the GGUF format {word} is not modelled: say --weights for the nearest one")
        return name, ""
    return stem, ""


def _layout_read(given: Given) -> Layout:
    device = given.find("device")
    devices = 1 if device is None else len(device.text.split(","))
    mode = given.chosen(
        "split-mode",
        {"none": "none", "layer": "layer", "tensor": "tensor"},
        "no way of splitting that is modelled",
    )
    split = given.find("tensor-split")
    if devices == 1 or mode == "none":
        return Layout()
    if mode == "tensor":
        return Layout(tp=devices)
    return Layout(pp=devices, stages=shared.stages_of(split, devices))


def _kv_read(given: Given, notes: list[str]) -> str:
    keys = given.chosen("cache-type-k", facts.KV_READ, "a cache that is not modelled")
    values = given.chosen("cache-type-v", facts.KV_READ, "a cache that is not modelled")
    if (keys or "auto") != (values or "auto"):
        notes.append("keys and values in two formats are counted as those of the keys")
    if keys in ("int8-kv", "int4-kv"):
        notes.append(
            f"the cache is counted as {keys}, a quarter of a bit or more below llama.cpp's"
        )
    return keys or "auto"


def _step_read(given: Given) -> int | None:
    logical, physical = given.whole("batch-size"), given.whole("ubatch-size")
    if physical is None or logical is None:
        return physical if logical is None else min(logical, 512)
    return min(logical, physical)


def _longest_read(given: Given, sequences: int | None) -> int | None:
    """Longest sequence: as said, or the part of the cache that a slot has of its own."""
    slot = given.whole("kv-unified-per-slot")
    shared_by_all = given.switch("kv-unified")
    whole = given.find("ctx-size")
    if slot is not None or shared_by_all or whole is None or whole.text == "0":
        return slot
    tokens = given.whole("ctx-size")
    if sequences is None or tokens is None:
        return tokens
    if tokens % sequences:
        whole.refuse(
            f"{tokens} tokens cannot be divided among {sequences} slots",
            "make it a multiple of --parallel, or share it with --kv-unified",
        )
    return tokens // sequences


def _pool_read(given: Given) -> Share | None:
    whole = given.find("ctx-size")
    if whole is None or whole.text == "0":
        return None
    tokens = given.whole("ctx-size")
    return None if tokens is None else Share(float(tokens), "tokens")


def _offloaded_read(given: Given) -> Offloaded | None:
    layers = given.find("gpu-layers")
    if layers is None or layers.text in ("all", "auto", "-1") or layers.text == "99":
        return None
    number = given.whole("gpu-layers", least=0)
    return None if number is None else Offloaded(float(number), "resident")


def _speculation_read(given: Given) -> Speculation | None:
    name = given.find("spec-type")
    drafted, looked_up = given.whole("spec-draft-n-max"), given.whole("spec-ngram-simple-size-m")
    model = (given.text("spec-draft-model") or "").removesuffix(facts.SUFFIX)
    if name is None or name.text == "none":
        return None
    method = facts.METHODS_READ.get(name.text)
    if method is None:
        name.refuse(f"{name.text!r:.40} is not modelled", f"known: {', '.join(facts.METHODS_READ)}")
    tokens = (looked_up or 48) if method == "ngram" else (drafted or 3)
    return Speculation(method, tokens, model if method in ("eagle", "model") else "")
