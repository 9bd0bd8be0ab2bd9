"""A service under traffic: its curve over load or clients up to saturation, and over time."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from roofline.report.figures import (
    axis,
    colour,
    layout,
    linear_axis,
    linear_ticks,
    lines,
    log_axis,
    log_ticks,
    note,
    rule,
    scatter,
)
from roofline.table import Result
from roofline.units import counted, significant
from roofline.view.block import Figure, Key, Section
from roofline.view.text import amount, is_number, percent, plain

STATISTICS: Final = (
    ("ttft_p50_s", "p50", "prefill", "circle"),
    ("ttft_mean_s", "mean", "compute", "square"),
    ("ttft_p99_s", "p99", "decode", "diamond"),
)
"""TTFT by load: column, name, colour and symbol."""
OF_CLIENTS: Final = (
    ("throughput_tok_s", "throughput", "token/s", "memory", "square", "y"),
    ("ttft_p50_s", "TTFT p50", "s", "prefill", "circle", "y2"),
    ("ttft_p99_s", "TTFT p99", "s", "decode", "diamond", "y2"),
    ("tpot_mean_s", "TPOT mean", "s", "compute", "triangle-up", "y2"),
)
"""Curves over clients: column, name, unit, colour, symbol and panel."""
FEW: Final = 7
"""Points up to which each has its number below. [1]"""
EVEN: Final = (0.57, 1.0), (0.0, 0.5)
"""Heights of two panels of the same size, over that of the figure. [1]"""
HEIGHT: Final = 360
"""Height of a figure. [px]"""
COUNTED: Final = (("running", "running", "prefill", ""), ("queue", "waiting", "decode", "dot"))
"""Requests over time: column, word, colour and dash."""
FAR: Final = 1.5
"""Load, in rates of saturation, from which on its line is beyond the figure. [1]"""
UPPER, LOWER = (0.44, 1.0), (0.0, 0.34)
"""Heights of the two panels, over that of the figure. [1]"""


def draw_by_load(rows: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> Figure:
    """TTFT against the rate of requests, with saturation and the rate that was asked for."""
    rates = [float(row["requests_per_s"]) for row in rows]
    limit, asked = float(given["saturation_requests_per_s"]), float(given["offered_requests_per_s"])
    every = [float(row[name]) for row in rows for name, *_ in STATISTICS]
    edges = min(every) / 1.3, max(every) * 1.3
    data = [
        scatter(
            rates,
            (row[name] for row in rows),
            [
                lines(
                    [
                        f"{plain(row['requests_per_s'])} requests/s, "
                        f"{percent(row['load_share'])} of saturation",
                        f"TTFT {said} {amount(row[name], 's')}",
                    ]
                )
                for row in rows
            ],
            "lines+markers",
            name=f"TTFT {said}",
            line={"color": colour(tint), "width": 2},
            marker={"color": colour(tint), "symbol": symbol, "size": 7, "opacity": 1},
        )
        for name, said, tint, symbol in STATISTICS
    ]
    # What is far beyond saturation has no place on the axis, and its name an arrow.
    far = asked > FAR * limit
    end = (FAR * limit if far else max(limit, asked)) * 1.08
    side = "right" if asked > end / 2 else "left"
    figure: dict[str, Any] = layout(
        HEIGHT,
        xaxis=linear_axis("Requests that come in a second", "", end, end),
        yaxis=axis("TTFT, logarithmic", type="log", **log_ticks(*edges, "s")),
        shapes=[rule(limit, "bad", "dash", width=2), *([] if far else [rule(asked, "ink")])],
        annotations=[
            _named(f"saturates at {significant(limit)}", limit, "right", 1.0),
            _named(f"asked: {significant(asked)}{' →' if far else ''}", min(asked, end), side, 0.9),
        ],
    )
    first, last = rows[0], rows[-1]
    return Figure(
        "by-load",
        "TTFT against the load",
        f"Mean TTFT is {amount(first['ttft_mean_s'], 's')} at {percent(first['load_share'])} of "
        f"saturation and {amount(last['ttft_mean_s'], 's')} at {percent(last['load_share'])}; "
        f"{significant(asked)} requests/s come in, and it saturates at {significant(limit)}. "
        "The same requests are sent faster or slower, at most 1,000 of them: near saturation a "
        "longer run has longer queues.",
        {"data": data, "layout": figure},
        tuple(Key(f"TTFT {said}", tint, symbol) for _, said, tint, symbol in STATISTICS),
    )


def draw_by_clients(rows: Sequence[Mapping[str, Any]], full: int | None, asked: int) -> Figure:
    """Throughput above TTFT and TPOT, against clients; saturation, and the clients of the run."""
    clients = [float(row["clients"]) for row in rows]
    drawn = [look for look in OF_CLIENTS if look[0] in rows[0]]
    data = [
        scatter(
            clients,
            (row[name] for row in rows),
            [
                f"{counted(row['clients'], 'client')}: {said} {amount(row[name], unit)}"
                for row in rows
            ],
            "lines+markers",
            name=said,
            yaxis=place,
            line={"color": colour(tint), "width": 2},
            marker={"color": colour(tint), "symbol": symbol, "size": 7, "opacity": 1},
        )
        for name, said, unit, tint, symbol, place in drawn
    ]
    most = max(float(row["throughput_tok_s"]) for row in rows)
    times = [float(row[name]) for row in rows for name, *_, place in drawn if place == "y2"]
    figure: dict[str, Any] = layout(HEIGHT)
    edges = clients[0] / 1.15, clients[-1] * 1.15
    figure["xaxis"] = log_axis("Clients, logarithmic", *edges, anchor="y2")
    figure["xaxis"] |= {"tickvals": clients, "ticktext": [_few(row, rows) for row in rows]}
    figure["yaxis"] = linear_axis("Output [token/s]", "", most * 1.1, most) | {"domain": EVEN[0]}
    figure["yaxis2"] = log_axis("Latency", min(times) / 1.3, max(times) * 1.3, "s")
    figure["yaxis2"] |= {"domain": EVEN[1]}
    figure["shapes"] = [rule(asked, "ink")]
    side = "left" if asked * asked < clients[0] * clients[-1] else "right"
    figure["annotations"] = [_named(f"asked: {asked:,}", math.log10(asked), side, 1.0)]
    said = "Throughput still grows at the end."
    if full is not None:
        figure["shapes"].append(rule(full, "bad", "dash", width=2))
        side = "left" if full * full < clients[0] * clients[-1] else "right"
        name = _named(f"saturates: {full:,}", math.log10(full), side, 0.62)
        figure["annotations"].append(name | {"bgcolor": colour("surface")})
        said = f"From {full:,} clients on throughput is within 5 % of its most."
    first, last = rows[0], rows[-1]
    return Figure(
        "by-clients",
        "Throughput and latency against clients",
        f"From {counted(first['clients'], 'client')} to {last['clients']:,}: throughput "
        f"{amount(first['throughput_tok_s'], 'token/s')} to "
        f"{amount(last['throughput_tok_s'], 'token/s')}, median TTFT "
        f"{amount(first['ttft_p50_s'], 's')} to {amount(last['ttft_p50_s'], 's')}. {said} Each "
        "client sends as many requests as in this run, and all start as they do here.",
        {"data": data, "layout": figure},
        tuple(Key(said, tint, symbol) for _, said, _, tint, symbol, _ in drawn),
    )


def _few(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Clients below a point of the curve, below every other of many."""
    every = [each["clients"] for each in rows]
    power = int(row["clients"] / every[0]).bit_length() - 1
    named = every[0] << power == row["clients"] and power % (1 + (len(every) > FEW)) == 0
    return f"{row['clients']:,}" if named else ""


def _named(text: str, at: float, side: str, height: float) -> dict[str, Any]:
    """Name of an upright line, to one side of it."""
    place = {"yref": "paper", "xanchor": side, "yanchor": "top", "xshift": 4}
    return note(text, at, height, **place | {"xshift": 4 if side == "left" else -4})


def draw_over_time(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Requests that run and wait above the share of the cache: mean of each bin, and its most."""
    starts = [float(row["from_s"]) for row in rows]
    x = [time for row in rows for time in (row["from_s"], row["to_s"])]
    end, width = float(rows[-1]["to_s"]), float(rows[0]["to_s"]) - starts[0]
    cache = "kv_share" if "kv_share" in rows[0] else "kv_tokens"
    data, legend = [], []
    for name, said, tint, dash in COUNTED:
        data += _stairs(rows, x, name, said, tint, dash, "y")
        legend.append(Key(f"requests that are {said}, mean", tint))
    data += _stairs(rows, x, cache, "of the cache is used", "kv", "", "y2")
    legend += [Key("KV cache of a replica in use, mean", "kv"), Key("most", "muted", "band")]
    most = max(max(row[f"{name}_most"] for row in rows) for name, *_ in COUNTED)
    full = max(row[f"{cache}_most"] for row in rows)
    figure: dict[str, Any] = layout(HEIGHT)
    figure["xaxis"] = linear_axis("Time since the start", "s", end, end) | {"anchor": "y2"}
    figure["xaxis"]["range"] = [starts[0], end]
    figure["yaxis"] = linear_axis("Requests", "", max(most, 1) * 1.1, max(most, 1))
    figure["yaxis"] |= {"domain": UPPER}
    figure["yaxis2"] = linear_axis("Cache [tokens]", "", (full or 1) * 1.15, full or 1)
    if cache == "kv_share":
        ticks = linear_ticks(full or 1.0, "", most=3)["tickvals"]
        figure["yaxis2"] |= {"tickvals": ticks, "ticktext": [percent(tick) for tick in ticks]}
        figure["yaxis2"]["title"]["text"] = "KV cache"
    figure["yaxis2"] |= {"domain": LOWER}
    held = percent(full) if cache == "kv_share" else f"{full:,.0f} tokens"
    return Figure(
        "over-time",
        "Requests and cache over the run",
        f"At most {counted(round(max(row['running_most'] for row in rows)), 'request')} ran and "
        f"{max(row['queue_most'] for row in rows):,.0f} waited; at most {held} of the KV cache of "
        f"a replica was in use. Lines are means of {amount(width, 's')}, bands go up to the most "
        "in them.",
        {"data": data, "layout": figure},
        tuple(legend),
    )


def _stairs(
    rows: Sequence[Mapping[str, Any]],
    x: list[float],
    name: str,
    said: str,
    tint: str,
    dash: str,
    axis_name: str,
) -> list[dict[str, Any]]:
    """Means of bins as a line, and a band from them up to the most."""
    means = [value for row in rows for value in (row[name],) * 2]
    mosts = [value for row in rows for value in (row[f"{name}_most"],) * 2]

    def written(value: float) -> str:
        return percent(value) if name == "kv_share" else plain(value)

    told = [
        lines(
            [
                f"{amount(row['from_s'], 's')} to {amount(row['to_s'], 's')}",
                f"{written(row[name])} {said}, most {written(row[f'{name}_most'])}",
            ]
        )
        for row in rows
        for _ in range(2)
    ]
    line: dict[str, Any] = {"color": colour(tint), "width": 2, **({"dash": dash} if dash else {})}
    band = {"line": {"width": 0}, "fill": "tonexty", "fillcolor": colour(tint, 0.22)}
    return [
        scatter(x, means, told, "lines", name=name, yaxis=axis_name, line=line),
        scatter(x, mosts, (), "lines", name=f"{name}, most", yaxis=axis_name, **band),
    ]


def build(result: Result) -> Section | None:
    """Section of the page."""
    figures = []
    loads, time = result.rows("by_load"), result.rows("over_time")
    limit = result.metadata.get("saturation_requests_per_s")
    if loads and is_number(limit) and is_number(result.metadata.get("offered_requests_per_s")):
        figures.append(draw_by_load(loads, result.metadata))
    if clients := result.rows("by_clients"):
        asked = result.metadata["concurrency"]
        figures.append(draw_by_clients(clients, result.metadata["saturation_clients"], asked))
    if time:
        figures.append(draw_over_time(time))
    if not figures:
        return None
    title = "By load and over time" if len(figures) > len(time[:1]) else "Over time"
    return Section(36, "traffic", title, "figures.html", None, tuple(figures))
