"""The building around a deployment, by hand and beside what others provision."""

import pytest

from roofline.errors import InputError
from roofline.hardware.carbon import carbon_intensity
from roofline.hardware.catalog import node
from roofline.serving.facility import Consumption, Facility, consumption
from roofline.serving.running_cost import FigureRange


def consumed(pue: float = 1.25, log_sd: float = 0.0) -> Consumption:
    """Eight H100 at 500 W each that serve 2 requests of 50 tokens a second."""
    facility = Facility(pue, 0.1, carbon_intensity(100.0))
    boards = FigureRange(500.0, 400.0, 600.0)
    return Consumption(facility, node("hgx-h100-8"), boards, 8, 2.0, 100.0, log_sd)


def test_the_bill_of_a_million_tokens_by_hand() -> None:
    # 500 W of the board, half of 575 W of the host, 35 W of switches: 822.5 W each.
    found = {row["metric"]: row["value"] for row in consumption([consumed()]).rows()}
    assert found["server_w"] == pytest.approx(822.5)
    assert found["facility_w"] == pytest.approx(8 * 822.5 * 1.25) == pytest.approx(8225.0)
    wh = 8225.0 / 100.0 * 1e6 / 3600.0
    assert found["wh_per_mtok"] == pytest.approx(wh)
    assert found["wh_per_request"] == pytest.approx(8225.0 / 2.0 / 3600.0)
    assert found["gco2e_per_mtok"] == pytest.approx(wh * 0.1)
    assert found["electricity_usd_per_mtok"] == pytest.approx(wh * 1e-4)


def test_what_is_not_asked_for_is_not_told() -> None:
    bare = Consumption(
        Facility(), node("hgx-h100-8"), FigureRange(500.0, 400.0, 600.0), 8, 2.0, 100.0
    )
    names = [row["metric"] for row in consumption([bare]).rows()]
    assert not [name for name in names if name.startswith(("gco2e", "electricity"))]


def test_pools_that_serve_the_same_requests_add_up() -> None:
    one, two = (list(consumption([consumed()] * number).rows()) for number in (1, 2))
    single, double = (
        {row["metric"]: row["value"] for row in rows if row["metric"] != "board_w"}
        for rows in (one, two)
    )
    for metric in ("facility_w", "provisioned_w", "wh_per_mtok", "gco2e_per_request"):
        assert double[metric] == pytest.approx(2.0 * single[metric]), metric


def test_an_unsure_rate_makes_energy_less_sure_and_power_no_less() -> None:
    sure, unsure = consumed(), consumed(log_sd=0.3)
    assert unsure.building == sure.building
    assert unsure.joule(1.0).low < sure.joule(1.0).low < sure.joule(1.0).value
    assert unsure.joule(1.0).high > sure.joule(1.0).high


def test_a_hall_holds_whole_servers_at_their_limits() -> None:
    facility, server = Facility(1.25), node("hgx-h100-8")
    assert facility.provisioned_w(server) == pytest.approx((700.0 + 575.0 + 35.0) * 1.25)
    assert facility.most(server, 2e6) == 152 * 8  # 2 MW over 13.1 kW are 152.7 servers
    assert facility.most(server, 13_099.0) == 0
    assert facility.most(server, 13_100.0) == 8


@pytest.mark.parametrize(
    ("name", "kilowatts"),
    [
        ("hgx-h100-8", 1.73),
        ("hgx-h200-8", 1.73),
        ("hgx-b200-8", 2.17),
        ("gb200-nvl72", 2.1),
        ("mi300x-8", 1.79),
    ],
)
def test_a_gpu_is_provisioned_for_as_much_as_an_index_of_data_centres_says(
    name: str, kilowatts: float
) -> None:
    """All-in power of a GPU. Source: GPU_SPECS of github.com/SemiAnalysisAI/InferenceX-app."""
    watts = Facility(1.25).provisioned_w(node(name))
    assert watts / 1e3 == pytest.approx(kilowatts, rel=0.07)


@pytest.mark.parametrize(
    ("pue", "price"), [(0.9, None), (11.0, None), (float("nan"), None), (1.2, -1.0)]
)
def test_a_building_that_cannot_be_is_refused(pue: float, price: float | None) -> None:
    with pytest.raises(InputError):
        Facility(pue, price)
