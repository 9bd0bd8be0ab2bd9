"""Mean steps against the tests' own reader of the prices, step by step."""

import pytest

from roofline.records import replace
from roofline.serving.simulate.dense import dense
from roofline.serving.simulate.mean_step import SteadyLoad, mean_step_s
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.server import ServerOptions, server_of
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import ConstantLength
from roofline.serving.traffic.traffic import Closed, Traffic
from tests.interop.engine_logs.simulated import deployment
from tests.serving.simulate.reference_prices import step_s

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_mean_step_is_that_of_the_steps_it_stands_for(engine: str) -> None:
    at = deployment(engine)
    server = server_of(
        at,
        ServerOptions(),
        draw(Traffic(ConstantLength(500), ConstantLength(50), Closed(1), 4), 0),
        None,
    )
    prices = step_prices(at, sequences=64, longest=16_384)
    prices = replace(prices, engine=replace(prices.engine, prefill_gain=1.3, decode_gain=1.1))
    table, first = dense(prices, 65, server), server.first == "decode"

    def mean(load: SteadyLoad) -> float:
        found, _ = mean_step_s(table, load, window=prices.window, groups=1, decode_first=first)
        return found

    for batch, context in ((1, 300), (7, 4000), (64, 1000)):
        plain = step_s(prices, batch, batch * context, [])
        assert mean(SteadyLoad(batch, context, 0, 0)) == pytest.approx(plain, rel=1e-6)
        # Two prompts of 600 tokens come together, once in eight decode steps.
        if first:
            mixed = step_s(prices, batch, batch * context, [(600, 0), (600, 0)])
            whole = (7 * plain + mixed) / 8
        else:
            whole = plain + step_s(prices, 0, 0, [(600, 0), (600, 0)]) / 8
        load = SteadyLoad(batch, context, 1200 / 8, 1200, prompts=2)
        assert mean(load) == pytest.approx(whole, rel=2e-3)
    between = mean(SteadyLoad(10.5, 1000, 0, 0))
    ends = [step_s(prices, batch, batch * 1000, []) for batch in (10, 11)]
    assert between == pytest.approx(sum(ends) / 2, rel=1e-6)
