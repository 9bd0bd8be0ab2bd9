"""Power of boards and servers by hand, and beside what others published."""

import pytest

from roofline.cost.power import board_power, host_power, network_power, unit_energy, within_limit
from roofline.hardware.catalog import gpu

H100 = 700.0


def test_a_stream_from_memory_draws_its_picojoules_and_the_floor() -> None:
    # 3.35 TB/s at 31.34 pJ a byte are 105 W, and 35 % of 700 W are 245 W.
    units = float(unit_energy(H100, 0.0, 1.0, 0.0))
    assert units == pytest.approx(3.35e12 * 31.343e-12, rel=1e-4)
    assert float(board_power(H100, 1.0, units)) == pytest.approx(350.0)


def test_arithmetic_of_half_the_width_takes_half_the_energy() -> None:
    board = gpu("h100-sxm")
    each = {
        name: float(unit_energy(board.tdp_w, 1.0 / board.rate(name), 0.0, 0.0))
        for name in ("bf16", "fp8")
    }
    assert each["bf16"] == pytest.approx(1.415e-12, rel=1e-3)
    assert each["bf16"] / each["fp8"] == pytest.approx(2.0, rel=1e-3)


def test_a_bit_of_hbm_takes_about_what_dram_vendors_state() -> None:
    # O'Connor et al. 2017: HBM2 takes about 4 pJ a bit; later generations are near it.
    for name in ("a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm"):
        board = gpu(name)
        bit = float(unit_energy(board.tdp_w, 0.0, 1.0 / board.hbm_bytes_per_s, 0.0)) / 8.0
        assert 2e-12 < bit < 5e-12, name


def test_nothing_draws_more_than_the_limit_and_more_work_never_less() -> None:
    drawn = [float(board_power(H100, 1.0, watts)) for watts in (0.0, 100.0, 455.0, 456.0, 5000.0)]
    assert drawn == pytest.approx([245.0, 345.0, 700.0, 700.0, 700.0])
    assert float(within_limit(H100, 1e6, 1.0)) == pytest.approx(455.0)


def test_a_board_that_works_half_of_the_time_draws_the_mean() -> None:
    waiting, working = (float(board_power(H100, busy, 0.0)) for busy in (0.0, 1.0))
    assert (waiting, working) == pytest.approx((105.0, 245.0))
    assert float(board_power(H100, 0.5, 50.0)) == pytest.approx((waiting + working + 100.0) / 2.0)


def test_the_rest_of_a_server_is_what_its_maximum_leaves() -> None:
    assert float(host_power(700.0, 8.0, 10_200.0)) == pytest.approx((10_200 - 5_600) / 8)
    assert host_power(400.0, 8.0, 0.0) == pytest.approx(320.0)
    assert network_power(0.0) == 0.0
