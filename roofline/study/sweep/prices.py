"""What the steps of a lane take, priced when it is first asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from roofline.study.sweep.decode import Decode, Exact
from roofline.study.sweep.gridded import GridStep, ask_together
from roofline.study.sweep.lane import Lane
from roofline.study.sweep.prefill import Prefill, PrefillSteps, prefill_steps
from roofline.study.sweep.tables import TableSteps, table_steps


@dataclass(eq=False)
class Prices:
    """A lane and what it takes, priced when it is first asked for: what never fits never is.

    Attributes
    ----------
    lane
        The deployment.
    by_tables
        Whether decode is priced by tables.
    """

    lane: Lane
    by_tables: bool

    @cached_property
    def prefill(self) -> Prefill:
        """First tokens."""
        return self._prefill_steps.priced()

    @cached_property
    def decode(self) -> Decode | None:
        """Time between tokens; None where every answer is one token."""
        if not self._decodes:
            return None
        return self._table_steps.priced() if self.by_tables else Exact(self.lane)

    def steps(self) -> Iterator[GridStep]:
        """All that is priced in tables."""
        yield from self._prefill_steps.steps
        if self.by_tables and self._decodes:
            yield self._table_steps.decode.step

    @property
    def _decodes(self) -> bool:
        network = self.lane.deployment.architecture
        return self.lane.axes.output.high > 1.0 and not network.is_encoder

    @cached_property
    def _prefill_steps(self) -> PrefillSteps:
        return prefill_steps(self.lane)

    @cached_property
    def _table_steps(self) -> TableSteps:
        return table_steps(self.lane)


def ahead(every: Sequence[Prices]) -> None:
    """Look up the kernels of several lanes at once; a lane costs little more than its rows then.

    What a device has no arithmetic for is left to be refused where it is asked for.
    """
    ask_together([step for prices in every for step in prices.steps()])
