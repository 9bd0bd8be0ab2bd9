"""Requests of a load: of a workload, changes of it, or a trace."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from roofline.api.question import refuse_unused
from roofline.content import there
from roofline.errors import InputError, UnknownNameError
from roofline.records import replace
from roofline.serving.requests import Requests, at_rate, check_rate, in_blocks, mean_rate
from roofline.serving.run.result import ServiceLoad
from roofline.serving.traffic import traffic as arriving
from roofline.serving.traffic.agents import requests_per_session
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import ConstantLength, Lengths, said, spelled, spread
from roofline.serving.traffic.presets import traffic_named
from roofline.serving.traffic.rate_curve import (
    HINT,
    RateCurve,
    is_spelled,
    recorded_curve,
    spelled_curve,
)
from roofline.serving.traffic.traffic import Traffic, offered_rate
from roofline.units import SECONDS_PER_DAY, counted, show

if TYPE_CHECKING:
    from roofline.cost.deployment import Options
    from roofline.model.architecture import Architecture
    from roofline.serving.traffic.harnesses import Harness

DEFAULT: Final = "chat"
WAVES: Final = (
    "All lengths are equal and all clients start at once, so they go in step: requests come in "
    "waves, as they do in a benchmark of fixed lengths. `length_spread=0.1` or `ramp_s` breaks "
    "them up."
)
WORKLOADS: Final = (".yaml", ".yml")
"""Ends of the names of workloads in files."""
MOST_TRACED: Final = 10**6
"""Requests of a trace that are simulated together."""


class OfferedLoad(Struct, frozen=True):
    """A load as it was asked for: see `roofline.api.parameters.Simulation`."""

    workload: str | Traffic = ""
    trace: str | Path = ""
    trace_sessions: bool = False
    rate: float | None = None
    sessions_per_day: float | None = None
    rate_curve: str | Path = ""
    cv: float | None = None
    concurrency: int | None = None
    prompt: int | str | Lengths | None = None
    output: int | str | Lengths | None = None
    requests: int | None = None
    warmup: int | None = None
    length_spread: float | None = None
    ramp_s: float | None = None
    prompt_pool: int | None = None
    samples: int | None = None
    harness: str = ""
    media: int = 0


def attached(
    wanted: OfferedLoad, options: "Options", network: "Architecture"
) -> "tuple[OfferedLoad, Options]":
    """A load with the tokens of pictures and sound, and where they begin: after what is shared.

    InputError where nobody says which of the prompts have them.
    """
    if not network.towers_of(options.media):
        return wanted, options
    given = options.media.images or options.media.recordings
    refuse_unused("`trace`", {"`images` or `recordings`": bool(wanted.trace and given)})
    if wanted.trace:
        return wanted, options
    traffic = changed(wanted)
    if traffic.turns is not None and traffic.turns.tools is not None:
        raise InputError(
            "pictures or sound in prompts of agents, whose tools hand on text",
            hint="leave out `images` and `recordings`",
        )
    after = traffic.shared.tokens if traffic.shared else 0
    media = replace(options.media, after=after)
    return replace(wanted, media=network.media_tokens(media)), replace(options, media=media)


def drawn(
    wanted: OfferedLoad, seed: int, page: int
) -> tuple[Requests, ServiceLoad, str, tuple[str, ...]]:
    """Requests of a load and a seed, their words, the objectives that come with them, and notes.

    Prefixes are divided into pages of the cache. [token] RooflineError: anything the user can mend.
    """
    if wanted.rate is not None and wanted.concurrency is not None:
        raise InputError(
            "`rate` and `concurrency` say when requests come",
            hint="give a rate for an open loop, or clients for a closed one",
        )
    if wanted.sessions_per_day is not None:
        other = {
            "`rate`": wanted.rate is not None,
            "`concurrency`": wanted.concurrency is not None,
            "`rate_curve`": bool(wanted.rate_curve),
            "`trace`": bool(wanted.trace),
            "`harness`": bool(wanted.harness),
        }
        refuse_unused("sessions a day", other)
    if wanted.rate_curve:
        other = {"`concurrency`": wanted.concurrency is not None, "`cv`": wanted.cv is not None}
        refuse_unused("a rate curve", other | {"`harness`": bool(wanted.harness)})
    if wanted.trace_sessions and not wanted.trace:
        raise InputError("sessions of a trace without one", hint="give `trace`")
    if wanted.trace:
        return _recorded(wanted, seed, page)
    traffic = changed(wanted)
    made = draw(traffic, seed, block=page)
    load = ServiceLoad(
        name=traffic.name or "requests",
        title=traffic.title or traffic.name or "requests of these lengths",
        prompt=_words(traffic),
        output=_tokens(traffic.output),
        arrivals=_arrivals(traffic.arrivals) + _by_day(traffic),
        rate=offered_rate(traffic),
        concurrency=traffic.concurrency,
        warmup=traffic.warmup,
        statistic=traffic.statistic,
        ramp_s=traffic.ramp_s,
        curve=traffic.arrivals if isinstance(traffic.arrivals, RateCurve) else None,
    )
    how = _harness(wanted)
    notes = () if how is None else (how.words,)
    return made, load, traffic.slo, (*notes, WAVES) if traffic.waves else notes


def changed(wanted: OfferedLoad) -> Traffic:
    """The workload with the changes that were asked for."""
    how = _harness(wanted)
    if how is not None:
        wanted = _driven(wanted, how)
    named = wanted.workload or ("" if wanted.prompt or wanted.output else DEFAULT)
    if isinstance(named, Traffic):
        traffic = named
    elif named:
        traffic = traffic_named(named)
    else:
        traffic = Traffic()
    if wanted.concurrency is not None:
        refuse_unused("a closed loop", {"`cv`": wanted.cv is not None})
        traffic = replace(traffic, arrivals=arriving.Closed(wanted.concurrency))
    elif wanted.rate_curve:
        curve = curve_of(wanted.rate_curve)
        paced = curve if wanted.rate is None else curve.paced(wanted.rate)
        traffic = replace(traffic, arrivals=paced)
    elif wanted.rate is not None or wanted.cv is not None:
        traffic = replace(traffic, arrivals=_process(traffic, wanted.rate, wanted.cv))
    if wanted.prompt is not None:
        traffic = replace(traffic, prompt=_lengths(wanted.prompt))
    if wanted.output is not None:
        traffic = replace(traffic, output=_lengths(wanted.output))
    prompt, output = traffic.prompt, traffic.output
    if wanted.length_spread is not None:
        prompt, output = (spread(each, wanted.length_spread) for each in (prompt, output))
    elif how is not None:
        prompt, output = (
            how.around(each.tokens) if isinstance(each, ConstantLength) else each
            for each in (prompt, output)
        )
    statistic = traffic.statistic if how is None else how.statistic
    traffic = replace(traffic, prompt=prompt, output=output, statistic=statistic)
    if wanted.ramp_s is not None:
        if not isinstance(traffic.arrivals, arriving.Closed):
            raise InputError(
                "clients that start one after the other in an open loop",
                hint="give `concurrency`, or leave out `ramp_s`",
            )
        traffic = replace(traffic, arrivals=replace(traffic.arrivals, ramp_s=wanted.ramp_s))
    if wanted.prompt_pool is not None:
        traffic = replace(traffic, pool=wanted.prompt_pool)
    if wanted.samples is not None:
        traffic = replace(traffic, samples=wanted.samples)
    if wanted.media:
        traffic = replace(traffic, media=wanted.media)
    requests = traffic.requests if wanted.requests is None else wanted.requests
    if wanted.requests is not None and wanted.requests < 1:
        raise InputError(f"{wanted.requests} requests", hint="send 1 or more")
    warmup = traffic.warmup if wanted.warmup is None else wanted.warmup
    traffic = replace(traffic, requests=requests, warmup=warmup)
    if wanted.sessions_per_day is None:
        return traffic
    per_s = wanted.sessions_per_day / SECONDS_PER_DAY
    if not 0 < per_s < math.inf:
        raise InputError(f"{wanted.sessions_per_day:g} sessions a day", hint="give more than 0")
    arrivals = _process(traffic, per_s * requests_per_session(traffic), wanted.cv)
    return replace(traffic, arrivals=arrivals)


def curve_of(asked: str | Path) -> RateCurve:
    """Rate curve from text, of a trace, or of a workload; RooflineError where it is none."""
    text = str(asked)
    if is_spelled(text) and not there(Path(text)):
        return spelled_curve(text)
    ending = Path(text).suffix.lower()
    if ending not in WORKLOADS and (ending or there(Path(text))):
        from roofline.interop.traces import read_trace

        trace = read_trace(Path(text))
        if not trace.timed:
            raise InputError(f"{trace.source} does not say when requests came", hint=HINT)
        return recorded_curve(trace.requests.arrival, trace.source)
    try:
        arrivals = traffic_named(text).arrivals
    except UnknownNameError as error:
        raise UnknownNameError(f"{error.message} with a rate curve", hint=HINT) from None
    if not isinstance(arrivals, RateCurve):
        raise InputError(f"workload {text!r:.60} has no rate curve", hint=HINT)
    return arrivals


def _harness(wanted: OfferedLoad) -> "Harness | None":
    """Harness that drives the clients; None where none is named, as its reader loads slowly."""
    if not wanted.harness:
        return None
    from roofline.serving.traffic.harnesses import harness_named

    return harness_named(wanted.harness)


def _driven(wanted: OfferedLoad, how: "Harness") -> OfferedLoad:
    """A load with what a harness says where nothing else does."""
    clients = wanted.concurrency
    if clients is None and wanted.rate is None:
        clients = how.clients or None
        if clients is None:
            raise InputError(
                f"{how.name} has as many clients as it is told",
                hint="give `concurrency`, or `rate` for an open loop",
            )
    sent = how.requests if clients is None else max(round(how.sent(clients)), 1)
    return replace(
        wanted,
        concurrency=clients,
        cv=how.cv if wanted.cv is None and clients is None else wanted.cv,
        requests=wanted.requests or sent or None,
        ramp_s=how.ramp_s or None if wanted.ramp_s is None and clients else wanted.ramp_s,
        prompt_pool=how.pool or None if wanted.prompt_pool is None else wanted.prompt_pool,
    )


def _lengths(asked: int | str | Lengths) -> Lengths:
    if isinstance(asked, bool):
        raise InputError(f"a length of {asked}", hint="give tokens")
    if isinstance(asked, int):
        return ConstantLength(asked)
    return spelled(asked) if isinstance(asked, str) else asked


def _process(traffic: Traffic, rate: float | None, cv: float | None) -> arriving.Arrivals:
    """Arrivals at another rate, or in other bursts."""
    had = traffic.arrivals
    if isinstance(had, arriving.Closed):
        if rate is None:
            raise InputError("`cv` without `rate` in a closed loop", hint="give the rate too")
        had = arriving.Poisson(rate)
    if isinstance(had, RateCurve) and cv is not None:
        raise InputError(
            "`cv` beside a rate curve, whose requests come as a Poisson process",
            hint="leave it out",
        )
    rate = had.rate if rate is None else rate
    if cv is None:
        match had:
            case arriving.Bursty():
                return arriving.Bursty(rate, had.cv)
            case arriving.Even():
                return arriving.Even(rate)
            case RateCurve():
                return had.paced(rate)
            case arriving.RecordedArrivals():
                pace = had.rate / rate
                return arriving.RecordedArrivals(tuple(time * pace for time in had.times))
            case _:
                return arriving.Poisson(rate)
    if cv == 0:
        return arriving.Even(rate)
    return arriving.Poisson(rate) if cv == 1 else arriving.Bursty(rate, cv)


def _recorded(
    wanted: OfferedLoad, seed: int, page: int
) -> tuple[Requests, ServiceLoad, str, tuple[str, ...]]:
    refuse_unused(
        "`trace`",
        {
            "`workload`": bool(wanted.workload),
            "`rate_curve`": bool(wanted.rate_curve),
            "`cv`": wanted.cv is not None,
            "`prompt`": wanted.prompt is not None,
            "`output`": wanted.output is not None,
            "`length_spread`": wanted.length_spread is not None,
            "`ramp_s`": wanted.ramp_s is not None,
            "`prompt_pool`": wanted.prompt_pool is not None,
            "`samples`": wanted.samples is not None,
            "`harness`": bool(wanted.harness),
        },
    )
    if wanted.requests is not None and wanted.requests < 1:
        raise InputError(f"{wanted.requests} requests", hint="send 1 or more")
    from roofline.interop.traces import read_trace

    most, chained = wanted.requests or MOST_TRACED, wanted.trace_sessions
    trace = read_trace(Path(wanted.trace), most=most, chained=chained)
    made, notes = in_blocks(trace.requests, page), trace.notes
    if not wanted.requests and len(made) == MOST_TRACED:
        notes = (*notes, f"Of the trace the first {MOST_TRACED:,} requests: `requests` for more.")
    if not trace.timed:
        made = _untimed(made, wanted, seed, trace.source)
    elif wanted.rate is not None:
        made = at_rate(made, wanted.rate)
    clients = wanted.concurrency or 0
    if wanted.concurrency is not None:
        arriving.Closed(wanted.concurrency)  # refuses what is no number of clients
    else:
        check_rate(made)
    rate = 0.0 if clients else mean_rate(made) if trace.timed else wanted.rate or 0.0
    warmup = wanted.warmup or 0
    if not 0 <= warmup < len(made):
        raise InputError(
            f"warm-up takes {warmup} of {counted(len(made), 'request')}", hint="leave out fewer"
        )
    load = ServiceLoad(
        name=Path(wanted.trace).name,
        title=f"{trace.source}, {trace.title}",
        prompt="as recorded",
        output="as recorded",
        arrivals=f"{counted(clients, 'client')}, all start at once"
        if clients
        else f"Poisson, {rate:g} a second"
        if not trace.timed
        else "as recorded" + (f", paced to {rate:g} a second" if wanted.rate else ""),
        rate=rate,
        concurrency=clients,
        warmup=warmup,
    )
    return made, load, "", notes


def _untimed(made: Requests, wanted: OfferedLoad, seed: int, source: str) -> Requests:
    """Requests of which nobody recorded when they came, at a rate that is asked for."""
    if wanted.concurrency is not None:
        return made
    if wanted.rate is None:
        raise InputError(
            f"{source} does not say when requests came",
            hint="give `rate`, at which they come independently, or `concurrency`",
        )
    even = Traffic(
        ConstantLength(1), ConstantLength(1), arriving.Poisson(wanted.rate), requests=len(made)
    )
    return replace(made, arrival=draw(even, seed).arrival)


def _tokens(lengths: Lengths) -> str:
    text = said(lengths)
    return f"{text} token" if text == "1" else f"{text} tokens"


def _turns(number: str) -> str:
    return f"{number} turn" if number == "1" else f"{number} turns"


def _by_day(traffic: Traffic) -> str:
    """Sessions a day of agents in an open loop, in words; nothing of other workloads."""
    if traffic.turns is None or traffic.turns.tools is None or traffic.concurrency:
        return ""
    sessions = offered_rate(traffic) / requests_per_session(traffic) * SECONDS_PER_DAY
    return f", of {sessions:,.0f} sessions a day"


def _words(traffic: Traffic) -> str:
    words = _tokens(traffic.prompt)
    if traffic.turns is not None:
        turns, tools = traffic.turns, traffic.turns.tools
        words = f"messages of {words}, {_turns(said(turns.number))} a session"
        if tools is not None:
            words += f", steps of a turn {said(tools.steps)}, results of {_tokens(tools.result)}"
            if apart := tools.branches:
                words += (
                    f", {apart.share:.0%} of the tool calls {said(apart.number)} agents side by "
                    f"side of {said(apart.steps)} steps each"
                )
    if traffic.shared is not None:
        shared = traffic.shared
        many = f"one of {shared.number:,}" if shared.number > 1 else "the same"
        words = f"{many} of {shared.tokens:,} tokens, then {words}"
    if traffic.media:
        of = "of the first of these" if traffic.turns is not None else "each"
        words += f", pictures and sound {of} of {traffic.media:,} tokens"
    if traffic.pool:
        words += f", {counted(traffic.pool, 'different prompt')} in turn"
    if traffic.samples > 1:
        words += f", {traffic.samples} answers to each"
    return words


def _arrivals(arrivals: arriving.Arrivals) -> str:
    match arrivals:
        case arriving.Poisson(rate):
            return f"Poisson, {rate:g} a second"
        case arriving.Bursty(rate, cv):
            return f"in bursts, {rate:g} a second, gaps of cv {cv:g}"
        case arriving.Even(rate):
            return f"even, {rate:g} a second"
        case RateCurve(period=period, rate=rate, peak=peak):
            return f"Poisson, {rate:.3g} a second on the mean of a {period}, {peak:.3g} at its peak"
        case arriving.Closed(clients, ramp):
            start = f"start over {show(ramp, 's')}" if ramp else "all start at once"
            return f"{counted(clients, 'client')}, {start}"
        case _:
            return f"as recorded, {arrivals.rate:g} a second"
