"""A small decoder in NumPy, the same steps as a list of kernels, and the loop that compares them.

Run as a program, with a time for the calibration: NumPy reads its number of threads only once.
"""

import json
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from roofline.bench import campaign
from roofline.bench.backend import Backend, ProbePlace
from roofline.bench.calibrating import fit_records
from roofline.bench.capacity import as_measured
from roofline.bench.probe import Probe, ProbePoint, find, probes
from roofline.bench.profile import Profile, profile, write
from roofline.bench.profile_file import load
from roofline.bench.stopping import SLOWED, Samples, Stop, median, sample
from roofline.cost.kernels.form import Machine
from roofline.records import replace
from tests.bench.predicting import naive, predict, touched

Array = Any

LAYERS: Final = 4
WIDTH: Final = 768
HEADS: Final = 12
KV_HEADS: Final = 4
HEAD_DIM: Final = 64
FFN: Final = 2048
VOCABULARY: Final = 6144
GROUP: Final = HEADS // KV_HEADS
"""No probe has any of the matrices that follow from these."""
STOP: Final = Stop(relative=0.01, least=5, most=20, budget_s=0.3, patience=2)


@dataclass(frozen=True)
class Step:
    """Sequences that each add new tokens to a context."""

    name: str
    count: int
    new: int
    context: int


STEPS: Final = (
    *(Step("prefill", 1, tokens, tokens) for tokens in (20, 48, 100, 200, 400)),
    Step("prefill", 3, 80, 80),
    Step("chunk", 1, 40, 300),
    *(Step("decode", 1, 1, context) for context in (40, 200, 700, 1500)),
    *(Step("decode", 3, 1, context) for context in (100, 900)),
    *(Step("decode", 10, 1, context) for context in (60, 300, 1200)),
)


@cache
def probe(name: str) -> Probe:
    return find(name).probe


def kernels(step: Step) -> Iterator[tuple[ProbePoint, float]]:
    """Launches of `Decoder.run`, and how often."""
    m = step.count * step.new

    def gemm(rows: int, n: int, k: int, times: int) -> tuple[ProbePoint, float]:
        return ProbePoint(probe("gemm"), {"m": rows, "n": n, "k": k}, "cold"), float(times)

    def warm(name: str, times: int, **at: int) -> tuple[ProbePoint, float]:
        return ProbePoint(probe(name), at, "warm"), float(times)

    yield gemm(m, WIDTH, WIDTH, 2 * LAYERS)
    yield gemm(m, KV_HEADS * HEAD_DIM, WIDTH, 2 * LAYERS)
    yield gemm(m, FFN, WIDTH, 2 * LAYERS)
    yield gemm(m, WIDTH, FFN, LAYERS)
    yield gemm(step.count, VOCABULARY, WIDTH, 1)
    yield warm("rmsnorm", 2 * LAYERS, m=m, width=WIDTH)
    yield warm("rmsnorm", 1, m=step.count, width=WIDTH)
    yield warm("rope", LAYERS, m=m, heads=HEADS, head_dim=HEAD_DIM)
    yield warm("rope", LAYERS, m=m, heads=KV_HEADS, head_dim=HEAD_DIM)
    yield warm("add", 2 * LAYERS, m=m, width=WIDTH)
    yield warm("silu-mul", LAYERS, m=m, width=FFN)
    store = {"m": step.new, "heads": KV_HEADS, "head_dim": HEAD_DIM}
    yield ProbePoint(probe("store"), store, "cold"), 2.0 * LAYERS * step.count
    heads = {"count": step.count, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM}
    if step.new == 1:
        yield (
            ProbePoint(probe("decode-attention"), {**heads, "context": step.context}, "cold"),
            float(LAYERS),
        )
    else:
        at = {**heads, "new": step.new, "context": step.context}
        yield ProbePoint(probe("prefill-attention"), at, "warm"), float(LAYERS)


NEEDED: Final = frozenset(point.probe.name for step in STEPS for point, _ in kernels(step))
MEMORY: Final = "read"
"""Tells rates of memory, and how much of the cache is had."""


class Weights:
    """Weights of all layers; steps share them."""

    def __init__(self) -> None:
        random, kv = np.random.default_rng(0), KV_HEADS * HEAD_DIM

        def matrix(k: int, n: int) -> Array:
            return random.standard_normal((k, n), dtype=np.float32) / np.float32(k**0.5)

        shapes = {
            "q": (WIDTH, WIDTH),
            "k": (WIDTH, kv),
            "v": (WIDTH, kv),
            "o": (WIDTH, WIDTH),
            "gate": (WIDTH, FFN),
            "up": (WIDTH, FFN),
            "down": (FFN, WIDTH),
        }
        self.layers = [
            {name: matrix(*shape) for name, shape in shapes.items()}
            | {"norm": np.ones(WIDTH, np.float32), "norm2": np.ones(WIDTH, np.float32)}
            for _ in range(LAYERS)
        ]
        self.norm, self.head = np.ones(WIDTH, np.float32), matrix(WIDTH, VOCABULARY)


class Decoder:
    """Weights, caches and room for one kind of step."""

    def __init__(self, step: Step, weights: Weights) -> None:
        random = np.random.default_rng(1)
        self.step, self.weights = step, weights
        m = step.count * step.new
        room = (step.count, KV_HEADS, step.context + 8, HEAD_DIM)
        self.caches = [
            [random.standard_normal(room, dtype=np.float32) for _ in "kv"] for _ in range(LAYERS)
        ]
        self.x = random.standard_normal((m, WIDTH), dtype=np.float32)
        past = step.context - step.new
        place = np.tile(past + np.arange(step.new), step.count)[:, None, None]
        turn = place * 1e4 ** (-np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
        self.cos, self.sin = (f(turn).astype(np.float32) for f in (np.cos, np.sin))
        seen = np.arange(step.context) <= (past + np.arange(step.new))[:, None]
        self.mask = np.where(seen, 0.0, -1e30).astype(np.float32)
        self.room: dict[str, Array] = {}

    def at(self, name: str, *shape: int) -> Array:
        """Room that is made once."""
        if name not in self.room:
            self.room[name] = np.empty(shape, np.float32)
        return self.room[name]

    def run(self) -> Array:
        """One step: logits of the last token of each sequence."""
        step, np_ = self.step, np
        m, count = step.count * step.new, step.count
        x = self.x
        squares, row, h = self.at("squares", m, WIDTH), self.at("row", m, 1), self.at("h", m, WIDTH)
        for i, (w, (keys, values)) in enumerate(zip(self.weights.layers, self.caches, strict=True)):
            probe("rmsnorm").launch(np_, x, w["norm"], squares, row, h)
            q = self.at("q", m, HEADS * HEAD_DIM)
            k, v = (self.at(name, m, KV_HEADS * HEAD_DIM) for name in "kv")
            for name, out in (("q", q), ("k", k), ("v", v)):
                probe("gemm").launch(np_, h, w[name], out)
            turned = self.turned("q", q, HEADS)
            self.store(self.turned("k", k, KV_HEADS), keys)
            self.store(v.reshape(m, KV_HEADS, HEAD_DIM), values)
            o = self.attend(turned, keys[:, :, : step.context], values[:, :, : step.context])
            probe("gemm").launch(np_, o, w["o"], h)
            y = self.at(f"y{i % 2}", m, WIDTH)
            probe("add").launch(np_, x, h, y)
            probe("rmsnorm").launch(np_, y, w["norm2"], squares, row, h)
            gate, up, act = (self.at(name, m, FFN) for name in ("gate", "up", "act"))
            probe("gemm").launch(np_, h, w["gate"], gate)
            probe("gemm").launch(np_, h, w["up"], up)
            probe("silu-mul").launch(np_, gate, up, act)
            probe("gemm").launch(np_, act, w["down"], h)
            x = self.at(f"x{i % 2}", m, WIDTH)
            probe("add").launch(np_, y, h, x)
        last = x.reshape(count, step.new, WIDTH)[:, -1]
        small = (self.at(f"last{i}", count, size) for i, size in enumerate((WIDTH, 1, WIDTH)))
        squares, row, h = small
        probe("rmsnorm").launch(np_, last, self.weights.norm, squares, row, h)
        logits = self.at("logits", count, VOCABULARY)
        probe("gemm").launch(np_, h, self.weights.head, logits)
        return logits

    def turned(self, name: str, x: Array, heads: int) -> Array:
        m = len(x)
        out = self.at(f"turned {name}", m, heads, HEAD_DIM)
        half = self.at(f"half {name}", m, heads, HEAD_DIM // 2)
        x = x.reshape(m, heads, HEAD_DIM)
        probe("rope").launch(np, x, self.cos, self.sin, half, out)
        return out

    def store(self, x: Array, cache: Array) -> None:
        step = self.step
        for i in range(step.count):
            place = cache[i, :, step.context - step.new : step.context]
            probe("store").launch(np, x[i * step.new : (i + 1) * step.new], place)

    def attend(self, q: Array, keys: Array, values: Array) -> Array:
        count, new, context = self.step.count, self.step.new, self.step.context
        if new == 1:
            shape = (count, KV_HEADS, GROUP)
            out = self.at("attended", *shape, HEAD_DIM)
            probe("decode-attention").launch(
                np,
                q.reshape(*shape, HEAD_DIM),
                keys,
                values,
                self.at("scaled", *shape, HEAD_DIM),
                self.at("scores", *shape, context),
                self.at("rows", *shape, 1),
                out,
            )
        else:
            rows = (count, KV_HEADS, GROUP, new)
            out = self.at("attended", count, new, KV_HEADS, GROUP, HEAD_DIM)
            probe("prefill-attention").launch(
                np,
                q.reshape(count, new, KV_HEADS, GROUP, HEAD_DIM),
                keys,
                values,
                self.mask,
                self.at("scaled", *rows, HEAD_DIM),
                self.at("scores", *rows, context),
                self.at("rows", *rows, 1),
                self.at("heads", *rows, HEAD_DIM),
                out,
            )
        return out.reshape(count * new, WIDTH)


def interrupted(backend: Backend) -> Callable[[], tuple[str, ...]]:
    """Says whether the core was slowed down, or another program ran on it since the last time.

    A step is longer than what a scheduler gives at once. Time of others does not count, but they
    leave the caches to it as it does not find them when it is alone.
    """
    seen = _switches()

    def others() -> tuple[str, ...]:
        nonlocal seen
        before, seen = seen, _switches()
        return (*backend.slowed(), *(["another program"] * (seen > before)))

    return others


def _switches() -> int:
    whose = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
    return resource.getrusage(whose).ru_nivcsw


def timed(decoders: Mapping[Step, Decoder], backend: Backend) -> dict[Step, Samples]:
    """Samples of every step, each after one that leaves the caches as a step does."""
    found = {}
    for step, decoder in decoders.items():
        timer = backend.timer([decoder.run])
        timer(1)
        found[step] = sample(partial(timer, 1), interrupted(backend), STOP)
    return found


def alone(*halves: Samples) -> tuple[float, ...]:
    """Samples that others let alone; all where there are none."""
    calm = [half.values for half in halves if half.stopped != SLOWED]
    return tuple(chain(*(calm or [half.values for half in halves])))


def calibrated(
    place: ProbePlace, budget_s: float, folder: Path
) -> tuple[Profile, campaign.CampaignRun]:
    """Probe, fit, write, read: what the steps launch, and what tells rates of memory."""
    chosen = [entry for entry in probes() if entry.probe.name in {*NEEDED, MEMORY}]
    done = campaign.measure(place, chosen, budget_s, folder, lambda *_: None)
    published = as_measured(place.published, done.records)
    fits, _ = fit_records(done.records, published)
    made = profile(done.records, fits, published)
    write(made, folder / "calibration.yaml")
    return load(folder / "calibration.yaml"), done


def fastest(done: campaign.CampaignRun, machine: Machine, reuse: float) -> Machine:
    """The machine at the highest rates that any probe reached: the best a roofline can know.

    Traffic at that of the level that so much comes from, of arrays no smaller.
    """
    rows = done.records.rows
    flops = max(row.work["flops"] / row.median.value for row in rows)
    passed = [row for row in rows if row.probe == MEMORY]
    reached = min(reuse, max(row.reuse for row in passed))
    moved = max(
        row.work["activation_bytes"] / row.median.value for row in passed if row.reuse >= reached
    )
    return replace(machine, flops_per_s=flops, hbm_bytes_per_s=moved)


def loop(budget_s: float, say: Callable[[str], object]) -> None:
    """Everything, as lines of JSON; the steps are timed before the calibration and after it."""
    weights = Weights()
    decoders = {step: Decoder(step, weights) for step in STEPS}
    place = campaign.numpy_place()
    before = timed(decoders, place.backend)
    with tempfile.TemporaryDirectory() as folder:
        found, done = calibrated(place, budget_s, Path(folder))
    after = timed(decoders, place.backend)
    if missing := sorted(NEEDED - set(found.fits)):
        noise = f"in {budget_s:.0f} s too little was measured of {', '.join(missing)}; {done.after}"
        say(json.dumps({"noise": noise}))
        return
    for step in STEPS:
        launched = list(kernels(step))
        prediction = predict(found, launched)
        low, high = prediction.interval
        best = fastest(done, found.machine, touched(launched))
        row = asdict(step) | {
            "measured": median(alone(before[step], after[step])).value,
            "slowed": all(half[step].stopped == SLOWED for half in (before, after)),
            "moved": median(after[step].values).value / median(before[step].values).value - 1.0,
            "predicted": prediction.seconds,
            "low": low,
            "high": high,
            "basis": prediction.basis,
            "naive": naive(best, launched),
            "datasheet": naive(found.machine, launched),
        }
        say(json.dumps(row))
    rows = done.records.rows
    noises = [noise for noise in (done.before, done.after) if noise]
    about = {
        "slowed": sum(row.stopped == SLOWED for row in rows) / len(rows),
        "calm": all(noise.calm for noise in noises),
        "noise": str(max(noises, key=lambda noise: (not noise.calm, noise.lost))),
        "cache": found.machine.l2_bytes,
        "points": len(rows),
        "seconds": done.seconds,
    }
    say(json.dumps(about))


if __name__ == "__main__":
    loop(float(sys.argv[1]), lambda line: print(line, flush=True))
