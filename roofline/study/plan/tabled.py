"""Replicas, their curves, and what simulation says of them; each is made once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from roofline.cost.deployment import Deployment
from roofline.errors import InfeasibleError, LayoutError
from roofline.records import replace
from roofline.serving.drafts import Draft
from roofline.serving.objectives import Objective
from roofline.serving.run.serve import Fleet
from roofline.serving.simulate.denoising import DenoisingSteps, denoising_steps
from roofline.serving.simulate.drafting import Rounds, rounds_of
from roofline.serving.simulate.prices import StepPrices, step_prices
from roofline.serving.simulate.server import Server, ServerOptions, server_of
from roofline.study.plan.candidate import Candidate, DeploymentKind, paced, short_of
from roofline.study.plan.curve import Curve, Role, curve
from roofline.study.plan.demand import Demand

SEQUENCES: Final = (128, 64, 32, 16)
"""Limits on the sequences of a group that are tried beside the engine's own. [1]"""
BUDGETS: Final = (2048, 512)
"""Tokens of a step of a group that are tried beside the engine's own, where prompts are cut.
[token]"""
RUNS: Final = 40
"""Simulations of a plan at most. [1]"""
Key = tuple[str, str]
Place = tuple[Key, Role, Server]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Replica:
    """A candidate that can serve."""

    candidate: Candidate
    deployment: Deployment
    """Layout and kind; network, devices, formats."""
    servers: tuple[Server, ...]
    """Settings that it may be run with: first those of the engine."""
    draft: Draft | None = None
    """Draft on its devices; None where decoding is plain."""
    _known: dict[tuple[str, bool], Rounds | DenoisingSteps] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def prices(self) -> StepPrices:
        """Prices of its steps, tabulated closely."""
        return step_prices(
            self.deployment,
            sequences=self.servers[0].max_sequences,
            longest=self.servers[0].longest,
        )

    @property
    def tabulated(self) -> bool:
        """True if its steps were tabulated closely."""
        return "prices" in self.__dict__

    def fleet(
        self,
        server: Server,
        demand: Demand,
        factor: float = 1.0,
        number: int = 1,
        *,
        closely: bool = True,
    ) -> Fleet:
        """Replicas that share traffic, with rounds in place of steps where something drafts.

        Devices are slower by a factor. [1] Steps are tabulated closely, or taken from the
        candidate's estimate. InfeasibleError where the draft leaves no room.
        """
        rounds = self._rounds(demand, closely)
        prices = self._steps(closely) if rounds is None else rounds.prices
        return Fleet(
            paced(prices, factor),
            server if rounds is None else rounds.server(server),
            number,
            None if rounds is None else rounds.drafting,
        )

    def _steps(self, closely: bool) -> StepPrices:
        estimate = self.candidate.estimate
        return self.prices if closely or estimate is None else estimate

    def _rounds(self, demand: Demand, closely: bool) -> Rounds | DenoisingSteps | None:
        """Rounds for what comes, priced once; None where decoding is plain."""
        kind, key = self.candidate.kind, (demand.name, closely)
        if key in self._known:
            return self._known[key]
        priced = self.deployment, self._steps(closely), demand.requests
        if kind.blocks is not None:
            self._known[key] = denoising_steps(kind.blocks, *priced)
        elif self.draft is not None and kind.speculation is not None:
            self._known[key] = rounds_of(kind.speculation.drafting(self.draft, demand), *priced)
        return self._known.get(key)

    def ways(self, role: Role) -> tuple[Server, ...]:
        """Settings for a role: prompts alone need no limit of sequences, answers no budget."""
        usual = self.servers[0]
        if role == "prefill":
            return tuple(s for s in self.servers if s.max_sequences == usual.max_sequences)
        if role == "decode":
            return tuple(s for s in self.servers if s.token_budget == usual.token_budget)
        return self.servers


@dataclass
class Budget:
    """Simulations of a plan, counted over all that it looks at."""

    used: int = 0
    """Simulations so far. [1]"""

    @property
    def left(self) -> int:
        """Simulations that may still be run. [1]"""
        return max(RUNS - self.used, 0)


@dataclass
class Tables:
    """Replicas and curves so far, and runs, so that no question pays for them twice."""

    probes: tuple[Objective, ...]
    """Latencies that curves have."""
    tell: Tell = lambda _: None
    """Told what is being done."""
    budget: Budget = field(default_factory=Budget)
    """Simulations, which several tables may share."""
    replicas: dict[Key, Replica | str] = field(default_factory=dict)
    curves: dict[tuple[Key, Role, Server, str], Curve] = field(default_factory=dict)
    """Replicas and curves by what tells them apart."""
    factors: dict[Place, dict[str, float]] = field(default_factory=dict)
    shares: dict[Place, float] = field(default_factory=dict)
    """Corrections of curves by simulation, as of `Curve.corrected`. [1]"""

    @property
    def made(self) -> tuple[Replica, ...]:
        """Replicas that there are curves of."""
        return tuple(each for each in self.replicas.values() if not isinstance(each, str))

    def replica(self, candidate: Candidate, demand: Demand) -> Replica | str:
        """A candidate as a replica, or the reason why it cannot be run."""
        key = key_of(candidate)
        if key not in self.replicas:
            self.tell(f"{candidate.kind.name}: {candidate.spelled}")
            self.replicas[key] = _replica(candidate, demand)
        return self.replicas[key]

    def curve(
        self, role: Role, replica: Replica, server: Server, demand: Demand, factor: float = 1.0
    ) -> Curve:
        """Curve of the replica on a device slower by a factor [1], corrected by its simulations."""
        key = key_of(replica.candidate)
        place = (key, role, server, demand.name)
        if place not in self.curves:
            fleet = replica.fleet(server, demand, closely=False)
            self.curves[place] = curve(role, demand, fleet, self.probes)
        found, known = self.curves[place].slower(factor), (key, role, server)
        if known not in self.factors:
            return found
        return found.corrected(self.factors[known], self.shares.get(known, 1.0))


def key_of(candidate: Candidate) -> Key:
    """Names of kind and layout, which tell candidates apart."""
    return candidate.kind.name, candidate.spelled


def _replica(candidate: Candidate, demand: Demand) -> Replica | str:
    try:
        deployment = candidate.deployed()
        first = server_of(
            deployment, _asked(candidate.kind), demand.requests, candidate.kind.utilization
        )
    except (LayoutError, InfeasibleError) as error:
        return error.message
    if first.kv_tokens < demand.longest:
        return short_of(first.kv_tokens, demand)
    speculation = candidate.kind.speculation
    made = Replica(
        candidate,
        deployment,
        (first, *_others(candidate, deployment, first, demand)),
        None if speculation is None else speculation.draft(deployment),
    )
    try:
        drafted = made.fleet(first, demand, closely=False).server
    except InfeasibleError as error:
        return f"memory: {error.message}"
    enough = drafted.kv_tokens >= demand.longest
    return made if enough else short_of(drafted.kv_tokens, demand)


def _asked(kind: DeploymentKind) -> ServerOptions:
    """Settings of the engine, with room for prefixes outside the GPU."""
    return ServerOptions(tier_bytes=kind.tier_bytes, disk_bytes=kind.disk_bytes)


def _others(
    candidate: Candidate, deployment: Deployment, first: Server, demand: Demand
) -> Iterator[Server]:
    """Other settings: fewer sequences at once, or shorter chunks."""
    groups, usual = int(deployment.layout.dp), _asked(candidate.kind)
    asked = [
        replace(usual, max_sequences=number * groups)
        for number in SEQUENCES
        if number * groups < first.max_sequences
    ]
    if first.policy == "chunked":
        asked += [
            replace(usual, token_budget=tokens * groups)
            for tokens in BUDGETS
            if tokens * groups < first.token_budget
        ]
    for each in asked:
        yield server_of(deployment, each, demand.requests, candidate.kind.utilization)
