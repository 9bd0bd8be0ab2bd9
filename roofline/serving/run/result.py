"""A run as a result: latencies, objectives, work of the server, cost."""

from dataclasses import dataclass, field
from math import exp
from typing import Final

from msgspec import Struct, structs

from roofline.cost.deployment import Deployment
from roofline.cost.measured import GROUNDS
from roofline.cost.power import IDLE_SHARE
from roofline.records import replace
from roofline.serving.adapters import load_notes, price_notes
from roofline.serving.facility import Facility, consumption
from roofline.serving.facility import notes as energy_notes
from roofline.serving.objectives import (
    Attainment,
    FinishedRequests,
    Objective,
    after_warmup,
    good,
    kept,
    spread,
)
from roofline.serving.requests import Requests
from roofline.serving.run import series, sessions, tables
from roofline.serving.run.intervals import Intervals
from roofline.serving.run.serve import Fleet
from roofline.serving.simulate.denoising import BlockDiffusion
from roofline.serving.simulate.drafting import RoundDraft
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.simulate.steady import ERRORS, arriving, lacking, share_of
from roofline.serving.static import CENTRAL
from roofline.serving.traffic.rate_curve import RateCurve
from roofline.table import Result, Table
from roofline.units import chance, show, significant

NEAR: Final = 0.9
"""Share of the rate of saturation from which queues are long and depend on chance."""


SURE: Final = 0.99
"""Probability from which nothing is said of it."""
PART: Final = 0.9
"""Share of a rate curve that has to be run for a verdict on all of it. [1]"""
LONG: Final = 1.25
"""Time of a run over that in which requests come, from which its end counts for much."""


class ServiceLoad(Struct, frozen=True):
    """Load of the service, in the words of the command.

    Attributes:
        name, title: Workload or trace, in a word and in a sentence.
        prompt, output, arrivals: Distributions, in a few words.
        rate: Requests that come in a second; 0 in a closed loop. [1/s]
        concurrency, ramp_s: Clients; 0 in an open loop. Time over which they start. [1] [s]
        warmup: First requests that do not count. [1]
        statistic: ``"mean"`` or ``"median"``: meaning of a single figure.
        curve: Rates by the time of a day or week; None where they do not change.
    """

    name: str
    title: str
    prompt: str
    output: str
    arrivals: str
    rate: float
    concurrency: int
    warmup: int = 0
    statistic: str = "mean"
    ramp_s: float = 0.0
    curve: RateCurve | None = None

    @property
    def peak(self) -> float:
        """Largest rate of the curve; 0 without one. [1/s]"""
        return 0.0 if self.curve is None else self.curve.peak

    @property
    def period_s(self) -> float:
        """Time after which the curve begins again; 0 without one. [s]"""
        return 0.0 if self.curve is None else self.curve.period_s


@dataclass(frozen=True, slots=True)
class Run:
    """A deployment under traffic, simulated."""

    deployment: Deployment
    fleet: Fleet
    load: ServiceLoad
    requests: Requests = field(repr=False)
    served: ServedRequests = field(repr=False)
    """Deployment, traffic, and its requests as they were served."""
    saturation: float
    """Requests a second beyond which the queue grows without end; 0 in a closed loop. [1/s]"""
    objectives: tuple[Objective, ...] = ()
    """Service-level objectives."""
    seed: int = 0
    """Seed of the requests. [1]"""
    notes: tuple[str, ...] = ()
    """Notes on the requests."""
    sure: Intervals | None = field(default=None, repr=False)
    """Intervals of the figures; None where prices are the least possible."""
    cache_curve: Table | None = field(default=None, repr=False)
    """Hits and TTFT by room for the cache; None where it is not asked for."""
    facility: Facility | None = None
    """Building around the servers; None where it is not asked for."""

    @property
    def finished(self) -> FinishedRequests:
        """Requests that count."""
        return after_warmup(self.served, self.load.warmup)

    @property
    def overloaded(self) -> bool:
        """Whether requests come faster than they can be served."""
        return bool(self.load.rate) and self.load.rate >= self.saturation

    @property
    def drafting(self) -> RoundDraft | None:
        """Speculative decoding; None where nothing drafts."""
        return self.fleet.drafting if isinstance(self.fleet.drafting, RoundDraft) else None

    @property
    def in_sessions(self) -> bool:
        """Whether requests follow others."""
        return bool((self.requests.after >= 0).any())

    @property
    def devices(self) -> int:
        """Devices of all replicas, of the most at once where they come and go. [1]"""
        others = sum(each.number * each.deployment.devices for each in self.fleet.others)
        return self.fleet.alike * self.deployment.devices + others

    @property
    def paid_s(self) -> float:
        """Time for which replicas are paid, all together. [s]"""
        if self.fleet.schedule is not None:
            return self.fleet.schedule.paid_s
        return self.served.totals.makespan_s * self.fleet.replicas

    @property
    def mean_devices(self) -> float:
        """Devices that are paid, mean over the run. [1]"""
        if self.fleet.schedule is None:
            return float(self.devices)
        return self.paid_s / self.served.totals.makespan_s * self.deployment.devices

    @property
    def usd_per_hour(self) -> float:
        """Price of the devices that are paid, mean over the run; 0 where one has none. [$/h]"""
        prices = [each.number * each.deployment.usd_per_hour for each in self.fleet.others]
        mean = self.mean_devices - sum(
            each.number * each.deployment.devices for each in self.fleet.others
        )
        prices.append(mean * self.deployment.node.gpu.usd_per_hour)
        return sum(prices) if all(prices) else 0.0


def result_of(run: Run, *, with_requests: bool = False) -> Result:
    """Tables, notes and inputs of a run."""
    done = run.finished
    # Under overload none is met, however short the run.
    reached = kept(done, run.objectives)
    slo = tuple(replace(each, met=each.met and not run.overloaded) for each in reached)
    every = {
        "headline": tables.latencies(done, run.deployment.basis, run.load.statistic, run.sure),
        "throughput": tables.throughput(run, done),
        "objectives": tables.objectives(slo, run.sure),
        "server": tables.server(run),
        "cache": tables.cache(run),
        **({"replica_kinds": tables.replica_kinds(run, done)} if run.fleet.others else {}),
        **({"tiers": tables.tiers(run)} if run.fleet.server.outside else {}),
        "workload": tables.workload(run),
        "distribution": series.distribution(done),
        "over_time": series.over_time(run),
    }
    if (loads := series.by_load(run)) is not None:
        every["by_load"] = loads
    full = None
    if (clients := series.by_clients(run)) is not None:
        every["by_clients"], full = clients, series.saturated_from(clients)
    drafting = run.drafting
    if drafting is not None and drafting.lengths is not None:
        every["draft_lengths"] = tables.draft_lengths(drafting.lengths)
    if run.in_sessions:
        found = sessions.paths(run.requests, run.served)
        every["places"] = sessions.by_place(run.requests, run.served)
        every["sessions"] = sessions.session_times(found)
    if run.cache_curve is not None:
        every["cache_curve"] = run.cache_curve
    if run.facility is not None:
        every["facility"] = consumption([tables.drawn(run, done, run.facility)])
    if with_requests:
        every["requests"] = tables.requests(run.served)
    deployment = run.deployment
    return Result(
        kind="simulate",
        tables=every,
        notes=(
            *run.notes,
            *notes(run),
            *(() if run.facility is None else energy_notes(run.facility, run.deployment)),
            *deployment.precision.notes,
            *deployment.architecture.notes,
        ),
        metadata={
            **deployment.metadata,
            **(structs.asdict(lora) if (lora := deployment.options.lora).adapters else {}),
            "gpus": run.devices,
            **({"machines": tables.machines(run)} if run.fleet.others else {}),
            "replicas": run.fleet.replicas,
            "layout_title": tables.arranged(run),
            "engine_title": deployment.engine.title,
            "policy": run.fleet.server.policy,
            "workload": run.load.name,
            "workload_title": run.load.title,
            "arrivals": run.load.arrivals,
            "prompt": run.load.prompt,
            "output": run.load.output,
            "requests": len(run.served),
            "counted": len(done),
            "statistic": run.load.statistic,
            "seed": run.seed,
            "basis": run.deployment.basis,
            "stable": None if run.load.concurrency else not run.overloaded,
            "offered_requests_per_s": run.load.rate or None,
            "saturation_requests_per_s": run.saturation or None,
            "concurrency": run.load.concurrency or None,
            "saturation_clients": full,
            "met": all(each.met for each in slo) if slo else None,
            "chance_stable": run.sure.stable if run.sure is not None and run.load.rate else None,
            "summary": sentences(run, done, slo, full),
        },
    )


def sentences(
    run: Run, done: FinishedRequests, slo: tuple[Attainment, ...], full: int | None = None
) -> tuple[str, ...]:
    """Summary: whether it holds the load, latencies, attainment, what limits it.

    Args:
        run, done, slo: Run, those of its requests that count, and its SLO.
        full: Clients from which on throughput hardly grows; None where that is not known. [1]
    """
    out = [_load(run)]
    if (schedule := run.fleet.schedule) is not None:
        always = run.fleet.replicas * run.served.totals.makespan_s
        out.append(
            f"Replicas follow it: {schedule.replicas.min()} to {schedule.most} serve, "
            f"{run.mean_devices / run.deployment.devices:.1f} are paid on the mean, "
            f"{run.paid_s / always:.0%} of what the most would cost all the time."
        )
    if full is not None:
        out.append(f"From {full:,} clients on, throughput is within 5% of its most.")
    spreads = {"TTFT": spread(done.ttft_s), "TPOT": spread(done.tpot_s)}
    told = [
        f"{name} is {show(each.p50, 's')} at the median and {show(each.p99, 's')} at p99"
        for name, each in spreads.items()
        if each is not None
    ]
    if told and not run.overloaded:
        out.append(f"{'; '.join(told)}.")
    if slo:
        broken = [each.objective.name for each in slo if not each.met]
        share = float(good(done, run.objectives).mean())
        said = f"The SLO is missed: {', '.join(broken)}." if broken else "The SLO is kept."
        if run.overloaded:
            said = "No SLO holds under overload; of this run"
        out.append(f"{said} {share:.1%} of the requests are within all limits.")
    if run.in_sessions:
        out.append(sessions.sentence(sessions.paths(run.requests, run.served)))
    totals = run.served.totals
    if totals.preemptions:
        out.append(
            f"Memory for the KV cache ran out: {totals.preemptions:,} preemptions, "
            f"{totals.recomputed_tokens:,} tokens computed again."
        )
    # Of unlike replicas it is not known whose cache was fullest.
    elif not run.fleet.others and totals.kv_peak_tokens > 0.9 * run.fleet.kv_tokens:
        out.append("The KV cache is what limits how many requests run together.")
    return tuple(out)


def _load(run: Run) -> str:
    load = run.load
    if load.concurrency:
        return (
            f"{load.concurrency:,} clients, each with one request at a time: they wait, and cannot "
            "overload it."
        )
    limit, offered = significant(run.saturation), significant(load.rate)
    totals = run.served.totals
    loading = totals.adapter_loads * run.fleet.server.adapter_load_s / run.fleet.replicas
    if loading > totals.makespan_s:
        return (
            f"Overloaded by adapters: to load those that are asked for takes {show(loading, 's')} "
            f"of a run of {show(totals.makespan_s, 's')}, and figures below leave out that loads "
            "wait for each other. Keep more of them (`max_loras`)."
        )
    if run.overloaded:
        return (
            f"Overloaded: {offered} requests/s come in, and it saturates at {limit} requests/s. "
            "The queue grows for as long as this lasts, and latencies with it: those below are of "
            "a run of this length only."
        )
    if load.peak:
        most = significant(load.peak)
        came = f"{offered} requests/s come in on average and {most} at the peak"
        sent, all_of_it = len(run.requests), load.rate * load.period_s
        if load.peak < run.saturation and sent < PART * all_of_it:
            return (
                f"Of the {all_of_it:,.0f} requests of the rate curve the first {sent:,} were sent, "
                "and nothing is told of the rest: leave out `requests` to send all of them."
            )
        if load.peak < run.saturation:
            return f"Holds the load: {came}, and it saturates at {limit} requests/s."
        return (
            f"Overloaded at the peak: {came}, and it saturates at {limit} requests/s. The queue "
            "grows then, and is worked off when fewer come."
        )
    share = load.rate / run.saturation
    unsure = run.sure is not None and run.sure.stable < SURE
    if unsure and run.sure is not None:
        return (
            f"Holds the load, with a probability of {chance(run.sure.stable)}: {offered} "
            f"requests/s come in, and it saturates at {limit} requests/s, if prices are right."
        )
    close = " So close to it queues are long and depend on chance." if share > NEAR else ""
    return (
        f"Holds the load: {offered} requests/s come in, and it saturates at {limit} requests/s "
        f"({share:.0%} of that).{close}"
    )


def notes(run: Run) -> tuple[str, ...]:
    """Conventions, omissions and assumptions behind the figures."""
    server, served = run.fleet.server, run.served
    came = float(run.requests.arrival[-1] - run.requests.arrival[0])
    out = []
    if run.load.peak:
        out.append(
            "The rate changes over the run: figures are of all of its requests, and have no "
            "interval."
        )
    if run.load.rate and not run.overloaded and served.totals.makespan_s > LONG * came:
        out.append(
            f"Requests and sessions came for {show(came, 's')}, and the last was served after "
            f"{show(served.totals.makespan_s, 's')}: rates are of a run that starts and ends "
            "empty. More of them (`requests`) come nearer to a lasting load."
        )
    if run.deployment.calibration is None:
        out.append(
            "Steps are priced at the datasheet roofline, the least the hardware allows, and engine "
            "overheads are left out: real latencies are longer, and saturation comes earlier."
        )
    else:
        out.append(_grounds(run.deployment))
    if run.sure is not None:
        out.append(_sureness(run.sure))
    if run.saturation:
        out.append(
            "Saturation is what the same server does with the same requests when it never waits"
            + ("; sessions go on at once, as many together as is best." if run.in_sessions else ".")
        )
    if server.sharing and server.page != run.deployment.engine.block_tokens:
        out.append(
            f"Prefixes are shared in pages of {server.page} tokens; {run.deployment.engine.title} "
            f"has pages of {run.deployment.engine.block_tokens:g}."
        )
    if run.drafting is not None:
        drafting = run.drafting
        how = f"{drafting.tree}, of which {drafting.tree.tokens:.2f} tokens a round are expected"
        if drafting.lengths is not None:
            how = f"up to {drafting.tree}, as many as are best for the sequences that decode"
        out.append(
            f"Drafted by {drafting.draft.title}: {how}, drawn for every round"
            f"{_unlike(drafting)}. A "
            "step is a round: each sequence has room for its drafted tokens in the cache, and they "
            "count in the token budget. Contexts and pages grow as they do on average."
        )
    if isinstance(run.fleet.drafting, BlockDiffusion):
        rule = run.fleet.drafting
        out.append(
            f"Answers are denoised in blocks of {rule.block} tokens, in {rule.steps} steps each; a "
            "first token is there with the whole first block. Keys and values of finished blocks "
            "are kept; they are computed with the first step of the next."
        )
    if said := formed(run):
        out.append(said)
    if run.fleet.router != "turns":
        known = " less those of prefixes that it sent there before" * (run.fleet.router == "prefix")
        out.append(
            "A router weighs loads: it counts the tokens of each prompt"
            f"{known}, and mean answers, at the replicas' prices, and knows nothing else of them."
        )
    if server.tier_tokens:
        out.append(
            f"Prefixes that leave the GPU wait on the host, which has room for "
            f"{server.tier_tokens:,} tokens, and come back at "
            f"{1.0 / server.swap_s_per_token:,.0f} tokens a second while nothing else runs; "
            "leaving is taken to go on beside the steps."
        )
    if server.pooled:
        out.append(
            f"Replicas share a pool with room for {server.disk_tokens:,} tokens: pages are there "
            "as soon as they are computed, those used longest ago leave, and each replica reads "
            f"{1.0 / server.disk_s_per_token:,.0f} tokens a second while it runs nothing else. "
            "Latency and rate of the pool itself are left out."
        )
    elif server.disk_tokens:
        out.append(
            f"What leaves the host's memory waits on its drives, with room for "
            f"{server.disk_tokens:,} tokens, and comes back at "
            f"{1.0 / server.disk_s_per_token:,.0f} tokens a second, a drive for each GPU."
        )
    if run.fleet.others:
        out.append(
            "Replicas are of several kinds: energy and intervals are left out, and figures of a "
            "replica are means of all."
        )
    out += [*load_notes(run.deployment), *price_notes(run.deployment)]
    out.append(
        f"Power is taken to grow from {IDLE_SHARE:.0%} of board power without work to all of it in "
        "a step; both are assumed."
    )
    if not run.deployment.node.gpu.usd_per_hour:
        out.append("No price is assumed for this device: give one with `usd_per_hour`.")
    return tuple(out)


def _sureness(sure: Intervals) -> str:
    """Basis of low, high and chances."""
    doubt = sure.doubt
    said = (
        "Low and high hold a figure in 4 of 5 cases, if the requests are like these: steps that "
        f"decode are known to ± {_within(doubt.decode_sd)}, what prompts add to ± "
        f"{_within(doubt.prefill_sd)}, and all steps are off together"
    )
    if "ttft_s" in doubt.misses:
        said += (
            "; TTFT is at least as unsure as predictions for this engine were on serving that "
            f"they had not seen, ± {_within(doubt.misses['ttft_s'])}"
        )
    return f"{said}."


def _within(log_sd: float) -> str:
    return f"{exp(CENTRAL * log_sd) - 1.0:.0%}"


def _grounds(deployment: Deployment) -> str:
    """Basis of the prices of steps where kernels were measured."""
    costs, title = deployment.engine_costs, deployment.engine.title
    measured = f"Steps are priced by {GROUNDS[deployment.basis]}"
    if not costs.step_s:
        return f"{measured}; what {title} adds to them is left out."
    each = show(float(costs.sequence_s), "s")
    return (
        f"{measured}, and by what {title} adds to them as fitted to serving that was measured end "
        f"to end: {show(costs.step_s, 's')} a step, {each} a sequence in it, "
        f"{show(costs.prefill_s, 's')} where it has prompts, {show(costs.request_s, 's')} a "
        "request. `roofline validate --kind e2e` says how far such predictions are off."
    )


LOADS: Final = ((0.7, "open to 70 %"), (0.85, "open to 85 %"))
"""Shares of saturation up to which errors of the closed form are known."""


def _unlike(drafting: RoundDraft) -> str:
    """Sentence on how far acceptance differs between requests; empty where it does not."""
    rates = drafting.acceptance
    if rates is None or not rates.spread:
        return ""
    return (
        f" by the acceptance of each request, whose standard deviation is {rates.spread:.2g} "
        "(assumed; Beta distribution)"
    )


def formed(run: "Run") -> str:
    """TTFT, TPOT and saturation in closed form, and how far such figures are off.

    Of a closed loop nothing is said: its run begins with a burst.
    """
    fleet, requests = run.fleet, run.requests
    if not run.load.rate or run.load.peak or fleet.others or lacking(requests, fleet.server):
        return ""
    if fleet.drafting is not run.drafting:  # a block has no first token
        return ""
    if fleet.drafting is not None and fleet.drafting.lengths is not None:
        return ""
    if fleet.drafting is not None:
        requests = fleet.drafting.in_rounds(requests)
    rate = run.load.rate / fleet.replicas
    share = share_of(requests, fleet.prices, fleet.server)
    most = float(arriving(share, rate * 2.0**-10).saturation_per_s[0]) if rate else 0.0
    kind = next((name for load, name in LOADS if rate < load * most), "")
    if not kind:
        return ""
    steady = arriving(share, rate)
    gaps = float(run.requests.output.mean()) - 1.0
    found = {"ttft": float(steady.ttft_s[0])}
    if gaps:
        found["tpot"] = float(steady.latency_s[0] - steady.ttft_s[0]) / gaps
    parts = []
    for name, value in found.items():
        simulated = spread(getattr(run.finished, f"{name}_s"))
        assert simulated is not None, "a mean of nothing"
        error = ERRORS[kind][f"{name}_s"].p90
        off = round(value / simulated.mean - 1.0, 2) + 0.0  # not −0
        parts.append(f"{name.upper()} {show(value, 's')} ({off:+.0%}; 9 of 10: ± {error:.0%})")
    return (
        f"In closed form: {', '.join(parts)}, saturation at {significant(most * fleet.replicas)} "
        "requests/s. It is what a search over many loads can ask."
    )
