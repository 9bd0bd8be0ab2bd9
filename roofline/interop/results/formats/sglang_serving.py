"""SGLang's client of a server: lines of JSON that ``sglang.bench_serving`` appends to.

Fields as in `python/sglang/bench_serving.py` of SGLang 0.3 to 0.5 (github.com/sgl-project/sglang),
`sglang/benchmark/serving.py` in 0.5.23. Older ones write ``random_input`` for ``random_input_len``
and have no ``backend``; newer ones bring ``server_info``, the arguments of the server with its
version. The values that it runs with are in ``internal_states``, one for each copy of attention; a
router in front of servers of prefill and decode answers with a list of each. Times are in
milliseconds; without streaming, TTFT and the gaps are 0 and were not measured. A rate may be
written Infinity.
"""

from collections.abc import Iterator

from roofline.interop.results.content import Content
from roofline.interop.results.measuring import client, engine_of, latencies, one, spread
from roofline.interop.results.node import LocatedValue, count, number, text
from roofline.interop.results.run import MeasuredFigure, MeasuredRun, ResultFormat, RunScenario
from roofline.units import PREFIX


def _recognises(content: Content) -> bool:
    keys = content.first.keys()
    return "mean_e2e_latency_ms" in keys and "request_throughput" in keys


def _read(content: Content) -> Iterator[MeasuredRun]:
    for run in content.records():
        whole = run.get("server_info")
        decoding = _decoding(whole)
        server = _arguments(decoding or whole)
        yield MeasuredRun(
            "SGLang bench_serving",
            run.where,
            _scenario(run, server, split=decoding is not None),
            tuple(_measured(run)),
            version=text(server, "version"),
        )


def _decoding(server: LocatedValue | None) -> LocatedValue | None:
    """The first server of decode, where a router answered for servers of prefill and of decode."""
    found = server.get("decode") if server is not None else None
    return next(iter(found.items()), None) if found is not None else None


def _arguments(server: LocatedValue | None) -> LocatedValue | None:
    """Arguments of a server: its own, and those of its first scheduler where it has none."""
    states = server.get("internal_states") if server is not None else None
    first = next(iter(states.items()), None) if states is not None else None
    if server is None or first is None:
        return server
    own = {name: value for name, value in server.value.items() if value is not None}
    values = {name: first.value[name] for name in first.names()} | own
    return LocatedValue(values, server.source, server.path)


def _scenario(run: LocatedValue, server: LocatedValue | None, *, split: bool) -> RunScenario:
    sent = client(run, "inf", "trace")
    accepted = number(run, "accept_length")
    tp, cache = count(server, "tp_size"), text(server, "kv_cache_dtype")
    apart = server.get("enable_dp_attention") if server is not None else None
    attention = apart is not None and apart.value is True
    replicas = 1 if attention else count(server, "dp_size") or 1
    return RunScenario(
        model=text(server, "model_path"),
        gpus=tp * (count(server, "pp_size") or 1) * replicas if tp else None,
        tp=tp,
        pp=count(server, "pp_size"),
        ep=count(server, "ep_size"),
        dp=count(server, "dp_size") if attention else None,
        engine=engine_of(text(run, "backend")),
        engine_version=text(server, "version"),
        weights=text(server, "quantization"),
        kv="" if cache == "auto" else cache,
        **sent,
        spread=_spread(run, sent["output"]),
        beyond=(
            "prefill and decode on devices of their own"
            if split
            else f"speculative decoding, {accepted:.2f} tokens a step"
            if accepted and accepted > 1
            else ""
        ),
    )


def _spread(run: LocatedValue, mean: float | None) -> float | None:
    """Random lengths are uniform from a share of the longest up to it."""
    if not text(run, "dataset_name").startswith("random"):
        return None
    longest = number(run, "random_output_len") or number(run, "random_output")
    share = number(run, "random_range_ratio") or 0.0
    return spread(max(share * longest, 1.0), mean, longest) if longest else None


def _measured(run: LocatedValue) -> Iterator[MeasuredFigure]:
    yield from latencies(run, "e2e_latency", suffix="_ms", scale=PREFIX["m"])
    yield from one(run, "output_throughput", "output_throughput", "output tokens over duration")
    yield from one(run, "input_throughput", "input_throughput", "prompt tokens over duration")
    total = "prompt and output tokens over duration"
    yield from one(run, "total_throughput", "total_throughput", total)
    yield from one(run, "request_throughput", "request_throughput", "requests over duration")


FORMAT = ResultFormat(
    "sglang-serving", "SGLang bench_serving (JSON lines)", _recognises, _read, "0.3 to 0.5.23"
)
