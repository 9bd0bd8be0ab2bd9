"""Replicas whose steps are tabulated, and their curves, each made once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from roofline.cost.deployment import Deployment
from roofline.errors import InfeasibleError, LayoutError
from roofline.serving.drafts import Draft
from roofline.serving.objectives import Objective
from roofline.serving.run.serve import Fleet
from roofline.serving.run.setup import Asked, server_of
from roofline.serving.simulate.drafting import Rounds, rounds_of
from roofline.serving.simulate.prices import StepPrices, step_prices
from roofline.serving.simulate.server import Server
from roofline.study.plan.candidate import Candidate
from roofline.study.plan.curve import Curve, Role, curve, reaches
from roofline.study.plan.demand import Demand
from roofline.study.plan.kinds import paced

LONGER: Final = 1.25
"""Room in tables for longer requests, over the longest."""
SEQUENCES: Final = (128, 64, 32, 16)
"""Limits on the sequences of a group that are tried beside the engine's own."""
BUDGETS: Final = (2048, 512)
"""Tokens of a step of a group that are tried beside the engine's own, where prompts are cut."""
Key = tuple[str, str]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Replica:
    """A candidate whose steps are tabulated.

    Attributes
    ----------
    candidate, deployment
        What it is.
    prices
        Of its steps.
    servers
        How it may be run: first as the engine does.
    draft
        What drafts on it; None where decoding is plain.
    """

    candidate: Candidate
    deployment: Deployment
    prices: StepPrices = field(repr=False)
    servers: tuple[Server, ...]
    draft: Draft | None = None
    _known: dict[str, Rounds] = field(default_factory=dict, init=False, repr=False, compare=False)

    def fleet(self, server: Server, demand: Demand, factor: float, number: int = 1) -> Fleet:
        """So many of it, with rounds in place of steps where something drafts.

        Parameters
        ----------
        server
            How it is run.
        demand
            What comes, of which the answers say how long sequences are.
        factor
            On the time of the device. [1]
        number
            Replicas. [1]

        Raises
        ------
        InfeasibleError
            What drafts leaves no room.
        """
        rounds = self._rounds(demand)
        prices = self.prices if rounds is None else rounds.prices
        return Fleet(
            paced(prices, factor),
            server if rounds is None else rounds.server(server),
            number,
            None if rounds is None else rounds.drafting,
        )

    def _rounds(self, demand: Demand) -> Rounds | None:
        """Rounds for what comes, priced once; None where decoding is plain."""
        speculation = self.candidate.kind.speculation
        if self.draft is None or speculation is None:
            return None
        if demand.name not in self._known:
            drafting = speculation.drafting(self.draft, demand)
            self._known[demand.name] = rounds_of(
                drafting, self.deployment, self.prices, demand.requests
            )
        return self._known[demand.name]

    def ways(self, role: Role) -> tuple[Server, ...]:
        """How it may be run in a role: prompts alone need no limit of sequences, answers no budget.

        Parameters
        ----------
        role
            What it does.
        """
        usual = self.servers[0]
        if role == "prefill":
            return tuple(s for s in self.servers if s.max_sequences == usual.max_sequences)
        if role == "decode":
            return tuple(s for s in self.servers if s.token_budget == usual.token_budget)
        return self.servers


@dataclass
class Tables:
    """What was tabulated and simulated so far, so that no question pays for it twice.

    Attributes
    ----------
    probes
        Latencies that curves are of.
    tell
        Told what is being done.
    """

    probes: tuple[Objective, ...]
    tell: Tell = lambda _: None
    replicas: dict[Key, Replica | str] = field(default_factory=dict)
    curves: dict[tuple[Key, Role, Server, float, str], Curve] = field(default_factory=dict)

    @property
    def made(self) -> tuple[Replica, ...]:
        """What was tabulated."""
        return tuple(each for each in self.replicas.values() if not isinstance(each, str))

    def replica(self, candidate: Candidate, demand: Demand) -> Replica | str:
        """A candidate's tables, or why it cannot be run, in words.

        Parameters
        ----------
        candidate, demand
            What is to be run, and the requests that are longest.
        """
        key = key_of(candidate)
        if key not in self.replicas:
            self.tell(f"{candidate.kind.name}: {candidate.layout.spelled}")
            self.replicas[key] = _replica(candidate, demand)
        return self.replicas[key]

    def reaches(
        self,
        replica: Replica,
        demand: Demand,
        factor: float,
        promises: Sequence[Objective],
        *,
        need: float,
    ) -> bool:
        """Whether a replica might carry so much in any way: if not, no curve of it does.

        Parameters
        ----------
        replica, demand, factor
            As for `curve`.
        promises
            That have to hold.
        need
            Requests that come. [1/s]
        """
        fleets = (replica.fleet(server, demand, factor) for server in replica.servers)
        return any(reaches(demand, fleet, promises, need) for fleet in fleets)

    def curve(
        self, role: Role, replica: Replica, server: Server, demand: Demand, factor: float
    ) -> Curve:
        """The replica under growing load.

        Parameters
        ----------
        role, replica, server
            What serves, and which phases.
        demand
            Requests; those of one name are the same.
        factor
            On the time of the device. [1]
        """
        key = (key_of(replica.candidate), role, server, factor, demand.name)
        if key not in self.curves:
            fleet = replica.fleet(server, demand, factor)
            self.curves[key] = curve(role, demand, fleet, self.probes)
        return self.curves[key]


def key_of(candidate: Candidate) -> Key:
    """What tells candidates apart."""
    return candidate.kind.name, candidate.layout.spelled


def _replica(candidate: Candidate, demand: Demand) -> Replica | str:
    try:
        deployment = candidate.kind.deployed(candidate.layout)
        first = server_of(deployment, Asked(), demand.requests, candidate.kind.utilization)
    except (LayoutError, InfeasibleError) as error:
        return error.message
    if first.kv_tokens < demand.longest:
        return _short(first, demand)
    prices = step_prices(
        deployment, sequences=first.max_sequences, longest=int(demand.longest * LONGER)
    )
    others = tuple(_others(candidate, deployment, first, demand))
    speculation = candidate.kind.speculation
    draft = None if speculation is None else speculation.draft(deployment)
    made = Replica(candidate, deployment, prices, (first, *others), draft)
    try:
        drafted = made.fleet(first, demand, 1.0).server
    except InfeasibleError as error:
        return f"memory: {error.message}"
    return made if drafted.kv_tokens >= demand.longest else _short(drafted, demand)


def _short(server: Server, demand: Demand) -> str:
    return (
        f"memory: room for {server.kv_tokens:,} tokens, the longest request has {demand.longest:,}"
    )


def _others(
    candidate: Candidate, deployment: Deployment, first: Server, demand: Demand
) -> Iterator[Server]:
    """Other ways to run it: fewer sequences at once, or shorter chunks."""
    groups = int(deployment.layout.dp)
    asked = [
        Asked(max_sequences=number * groups)
        for number in SEQUENCES
        if number * groups < first.max_sequences
    ]
    if first.policy == "chunked":
        asked += [
            Asked(token_budget=tokens * groups)
            for tokens in BUDGETS
            if tokens * groups < first.token_budget
        ]
    for each in asked:
        yield server_of(deployment, each, demand.requests, candidate.kind.utilization)
