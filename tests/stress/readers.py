"""Every reader of the package, with documents that it reads without a complaint."""

import gzip
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from roofline.api.saved import as_saved, read_result
from roofline.api.setting import tokens_of
from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.published_results import read_published
from roofline.bench.measurement_files import read_measurements
from roofline.bench.profile_file import load
from roofline.bench.records import read_records
from roofline.cli import run
from roofline.cli.calibrate import duration
from roofline.cli.inputs import numbers
from roofline.cli.learn import parsed
from roofline.content import label, shipped
from roofline.cost import layout
from roofline.errors import InputError
from roofline.hardware.engine_file import read_engine
from roofline.hardware.figures import read_kind
from roofline.hardware.reading import read_gpu, read_node
from roofline.interop.commands import llmd, targets
from roofline.interop.results import read_results
from roofline.interop.traces import read_trace
from roofline.model.catalog import architecture
from roofline.model.changes import settings
from roofline.model.checkpoint import stored_bytes
from roofline.model.huggingface import from_config
from roofline.report import render
from roofline.schema import Document, parse_yaml, read
from roofline.serving import acceptance
from roofline.serving.objectives import parse_slo
from roofline.serving.traffic.files import read_traffic
from roofline.serving.traffic.harnesses import read_harness
from roofline.serving.traffic.lengths import spelled
from roofline.study.scenario.reading import read_scenario
from roofline.study.store import manifest
from roofline.study.store.parts import KEY
from roofline.units import parse
from tests.cli.test_report import plan
from tests.interop.commands import test_golden as commands
from tests.interop.commands.serving import SITE
from tests.interop.results.test_formats import DATA
from tests.interop.test_traces import AZURE, BURSTGPT, MOONCAKE, PLAIN
from tests.model import test_checkpoint as checkpoints

AT: Final = r":\d+:\d+"
"""Place in a text that a person writes: line and column."""
LONGEST_LINE: Final = 2**17
"""Characters of a command that a system starts. [1]"""
FILE: Final = r"(:\d+)?(:\d+)?(: .+)?"
"""Place in what a tool wrote, or the whole of it: a line, a path of keys."""


@dataclass(frozen=True, slots=True)
class Original:
    """A document that is read."""

    name: str
    """Name of its file."""
    content: bytes


@dataclass(frozen=True, slots=True)
class Reader:
    """Something that reads documents."""

    name: str
    read: Callable[[Path], object]
    """Reads one, and makes of it what is made before it is costed."""
    originals: tuple[Original, ...]
    weight: float
    """Frequency with which its documents are tried, against others."""
    where: str = AT
    """Places that its errors have after the name of the file."""
    packed: bool = False
    """Whether its documents are bytes, not text."""


# Kept short, so that splices land in every corner of them.
GPU: Final = """\
name: x
sources:
  sheet: {title: "A: data sheet", url: https://example.org, read_on: 2025-01-31}
memory:
  bandwidth: {value: 3.35 TB/s, source: sheet, where: "table 1"}
arithmetic: # dense
  bf16: {value: 989e12, source: assumed, note: 'it''s a guess'}
notes: |
  two
  lines
"""
CONFIG: Final = """\
{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "rope_theta": 500000.0,
 "rope_scaling": {"factor": 8.0, "type": "llama3"}, "eos_token_id": [128001, 128008],
 "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "pad": null,
 "vocab_size": 128256, "tie_word_embeddings": false, "note": "caf\\u00e9 \\ud83d\\ude00"}
"""
LINES: Final = """\
analyze llama-3.1-8b --gpu h100-sxm --gpus 4 --tp 4 --batch 8 --prompt 512 --output 64 --kv fp8
analyze qwen3-30b-a3b --gpu l40s --gpus 2 --layout ep2-dp2 --routing-skew 0.5 --overlap 0.5
serve-command llama-3.1-8b --gpu h100-sxm --target k8s --batch 8
parse-command "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2" --gpu h100-sxm
gpus h100-sxm
models llama-3.1-8b
report plan.json --out none/report.html
schema --out none/schema.json
"""
"""Commands that answer at once: their time is that of reading what they are told."""
ROWS: Final = """\
gpu,backend,version,m,n,k,dtype,time_s
h100_sxm,vllm,0.11.0,1024,1024,1024,bf16,1.5e-05
"a100, sxm",trtllm,1.0,1,28672,8192,"fp8",0.0002
"""
VALUES: Final[dict[str, tuple[Callable[[str], object], str]]] = {
    "quantity": (lambda text: parse(text, "B/s"), "3.35 TB/s"),
    "lengths": (spelled, "100..2000"),
    "slo": (parse_slo, "ttft=200ms,tpot_p90=20ms"),
    "acceptance": (acceptance.parse, "0.8,0.7,0.6"),
    "layout": (layout.parse, "tp8-pp2-sp"),
    "changes": (settings.parse, "gqa=8,weights=int4-awq"),
    "budget": (duration, "1.5min"),
    "given": (parsed, "gpus=2,prompt=1024,engine=vllm"),
    "stages": (lambda text: numbers("--stages", text), "20,21,20"),
    "training tokens": (lambda text: tokens_of("training_tokens", text), "15T"),
}


def _text(read_: Callable[[str], object]) -> Callable[[Path], object]:
    """Reads the text of a file, as what a person types."""
    return lambda path: read_(path.read_bytes().decode("utf-8", "replace"))


def _value(read_: Callable[[str], object]) -> Callable[[Path], object]:
    """Reads one value: a refusal without a place is of all of it."""

    def of(path: Path) -> None:
        try:
            _text(read_)(path)
        except InputError as error:
            error.where = error.where or str(path)
            raise

    return of


def _config(path: Path) -> None:
    if path.suffix == ".yaml":
        document = read(path)
        inner = isinstance(document.data, dict) and "config" in document.data
        from_config(document, "x", ("config",) if inner else ())
    else:
        architecture(str(path))


def _no_file(name: str) -> Document:
    return parse_yaml("tensor_parallel_size: [1]\nspeculative_config: 3\n", label(Path(name[:255])))


def _command(path: Path) -> None:
    """A line, run in this process; a bug is raised, and a refusal is two lines."""
    line = path.read_bytes().decode("utf-8", "replace")
    try:
        words = shlex.split(line) if len(line) < LONGEST_LINE else []
    except ValueError:
        words = []
    if not words:  # no shell would start it
        return
    out, err = StringIO(), StringIO()
    # What it writes goes beside the document.
    with redirect_stdout(out), redirect_stderr(err), chdir(path.parent):
        try:
            code = run(words)
        except SystemExit as left:
            code = int(left.code or 0)
    assert code in range(6), (code, words)
    if code > 1:
        error, hint = err.getvalue().splitlines()[-2:]
        assert error.startswith("error: "), words
        assert hint.startswith("hint: "), words


def _saved(path: Path) -> None:
    with as_saved(path):
        render(read_result(path))


def _about(parquet: bytes) -> Callable[[Path], object]:
    """Reads a result of a sweep whose words are those of a document."""
    table = pq.ParquetFile(pa.BufferReader(parquet)).read()

    def of(path: Path) -> None:
        pq.write_table(table.replace_schema_metadata({KEY: path.read_bytes()}), path)
        _saved(path)

    return of


def _sidecar(folder: Path) -> Callable[[Path], object]:
    def of(path: Path) -> None:
        (folder / "run.json").write_bytes(path.read_bytes())
        read_records(folder)

    return of


def _part(folder: Path) -> Callable[[Path], object]:
    """Reads a run of which a document is the only part."""
    (folder / "run").mkdir()
    (folder / "run" / "run.json").write_bytes((folder / "recorded" / "run.json").read_bytes())

    def of(path: Path) -> None:
        (folder / "run" / path.name).write_bytes(path.read_bytes())
        read_records(folder / "run")

    return of


def parquet(text: str) -> bytes:
    """Parquet of a table in CSV."""
    sink = pa.BufferOutputStream()
    pq.write_table(csv.read_csv(pa.py_buffer(text.encode())), sink)
    return bytes(sink.getvalue())


def _shelf(*parts: str) -> Iterator[Original]:
    for path in sorted(shipped("hwspecs").parent.joinpath(*parts).glob("*.yaml")):
        yield Original(path.name, path.read_bytes())


def _networks() -> tuple[list[Original], list[Original]]:
    """Configs as catalog files and as they are published; patches on them."""
    configs = [Original("config.json", CONFIG.encode())]
    patches = []
    for file in _shelf("scenarios", "models"):
        config = parse_yaml(file.content.decode(), file.name).data.get("config")
        if config is None:
            patches.append(file)
            continue
        published = json.dumps(config, indent=2).encode()
        configs += [file, Original(file.name.replace(".yaml", ".json"), published)]
    return configs, patches


def readers(folder: Path) -> list[Reader]:
    """All readers.

    Args:
        folder: Empty; gets what some of them need beside a document.
    """
    configs, patches = _networks()
    subprocess.run(
        [sys.executable, "-m", "tests.stress.prepared", str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    )
    calibration, sidecar, noted, swept = (
        (folder / name).read_bytes()
        for name in ("calibration.yaml", "sidecar.json", "manifest", "swept/result.parquet")
    )
    part = next((folder / "recorded").glob("*.parquet")).read_bytes()
    about = pq.read_schema(pa.BufferReader(swept)).metadata[KEY]
    whole = checkpoints.packed(checkpoints.header_of(checkpoints.WEIGHTS))
    packed = checkpoints.gguf_file(checkpoints.TENSORS, checkpoints.KEYS)
    index = json.dumps({"metadata": {"total_size": 99}, "weight_map": {"a": "b.safetensors"}})
    traces = [Original(f"{n}.csv", t.encode()) for n, t in enumerate((AZURE, BURSTGPT, PLAIN))]
    traces.append(Original("m.jsonl", MOONCAKE.encode()))
    results = [Original(path.name, path.read_bytes()) for path in sorted(DATA.iterdir())]
    small = [each for each in results if len(each.content) < 8_000]
    scripts = []
    for target, served in commands.CASES.values():
        if target == llmd.NAME:
            continue  # values of a chart are written, and not read back
        written = targets.write(target, served, SITE)
        texts = [written.script] if target in targets.ENGINES else list(written.files.values())
        scripts += [Original("command.sh", text.encode()) for text in texts]
    lines = [Original("line", line.encode()) for line in LINES.splitlines()]

    def documents(path: Path) -> object:
        return read(path, infinity=True)

    return [
        Reader("document", documents, (Original("x.yaml", GPU.encode()), configs[0]), 10),
        Reader("GPU", read_gpu, tuple(_shelf("hwspecs", "gpus")), 6),
        Reader("node", read_node, tuple(_shelf("hwspecs", "nodes")), 6),
        Reader("link", read_kind, tuple(_shelf("hwspecs", "links")), 4),
        Reader("engine", read_engine, tuple(_shelf("hwspecs", "engines")), 4),
        Reader("harness", read_harness, tuple(_shelf("hwspecs", "harnesses")), 4),
        Reader("published", read_published, tuple(_shelf("hwspecs", "published")), 1),
        Reader("workload", read_traffic, tuple(_shelf("scenarios", "workloads")), 5),
        Reader("network", _config, tuple(configs), 10),
        Reader("patch", lambda path: architecture(str(path)), tuple(patches), 4),
        Reader("scenario", read_scenario, tuple(_shelf("scenarios")), 6),
        Reader("calibration", load, (Original("c.yaml", calibration),), 2),
        Reader(
            "profile of an engine",
            profiles.load,
            tuple(
                each
                for each in _shelf("hwspecs", "calibrations", "engines")
                if each.name != "kernels.yaml"  # of all engines
            ),
            1,
        ),
        Reader("result of a benchmark", read_results, tuple(small), 16, FILE),
        Reader("trace", read_trace, tuple(traces), 14, FILE),
        Reader(
            "packed trace",
            read_trace,
            tuple(
                Original(f"{each.name}.gz", gzip.compress(each.content, mtime=0)) for each in traces
            ),
            2,
            FILE,
            packed=True,
        ),
        Reader(
            "command",
            _text(lambda text: targets.read(text, _no_file, "command.sh")),
            tuple(scripts),
            10,
            FILE,
        ),
        Reader("safetensors", stored_bytes, (Original("m.safetensors", whole),), 6, FILE, True),
        Reader("GGUF", stored_bytes, (Original("m.gguf", packed),), 6, FILE, True),
        Reader(
            "index of a checkpoint",
            lambda path: stored_bytes(path.parent),
            (Original("model.safetensors.index.json", index.encode()),),
            2,
            FILE,
        ),
        Reader("measurements", read_measurements, (Original("rows.csv", ROWS.encode()),), 3, FILE),
        Reader(
            "packed measurements",
            read_measurements,
            (
                Original("rows.csv.gz", gzip.compress(ROWS.encode(), mtime=0)),
                Original("rows.parquet", parquet(ROWS)),
            ),
            2,
            FILE,
            packed=True,
        ),
        Reader("part of a run", _part(folder), (Original("p.parquet", part),), 2, FILE, True),
        Reader("manifest", manifest.read, (Original("m", noted),), 3, FILE, True),
        Reader("records", _sidecar(folder), (Original("x.json", sidecar),), 2),
        Reader(
            "saved plan", _saved, (Original("plan.json", json.dumps(plan()).encode()),), 1, FILE
        ),
        Reader("saved sweep", _saved, (Original("r.parquet", swept),), 0.5, FILE, True),
        Reader("words of a sweep", _about(swept), (Original("about.parquet", about),), 0.5, FILE),
        Reader("command line", _command, tuple(lines), 0.5, FILE),
        *(
            Reader(name, _value(read_), (Original("value", value.encode()),), 1, FILE)
            for name, (read_, value) in VALUES.items()
        ),
    ]
