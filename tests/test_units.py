"""Quantities and errors."""

import math
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import errors
from roofline.units import PREFIX, count, parse, show, show_binary

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("3.35 TB/s", "B/s", 3.35e12),
        ("989 TFLOP/s", "FLOP/s", 989e12),
        ("80 GiB", "B", 80 * 2**30),
        ("80 GB", "B", 80e9),
        ("1.5 µs", "s", 1.5e-6),
        ("1.5 us", "s", 1.5e-6),
        ("700 W", "W", 700.0),
        ("1.98GHz", "Hz", 1.98e9),
        ("  .5   kB ", "B", 500.0),
        ("5. MB", "B", 5e6),
        ("-2e3 B", "B", -2000.0),
        ("132", "", 132.0),
        ("2 m", "m", 2.0),
        ("2 mm", "m", 0.002),
    ],
)
def test_a_quantity_is_read_in_base_units(text: str, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("", "B"),
        ("B", "B"),
        ("3 TB", "B/s"),
        ("3 TB/s", "B"),
        ("3", "B"),
        ("3 xB", "B"),
        ("3 KB", "B"),
        ("3 EB", "B"),
        ("3 k", ""),
        ("3 4 B", "B"),
        ("1,000 B", "B"),
        ("nan B", "B"),
        ("inf B", "B"),
        ("1e999 B", "B"),
        ("1e308 TB", "B"),
        ("--3 B", "B"),
        ("0x10 B", "B"),
        ("٣ B", "B"),
        ("3 B\x00", "B"),
    ],
)
def test_anything_else_is_refused_with_an_example(text: str, unit: str) -> None:
    with pytest.raises(errors.QuantityError) as caught:
        parse(text, unit)
    assert repr(text) in caught.value.message
    assert "write it like '" in caught.value.hint


@pytest.mark.parametrize(
    "text", ["1" * 200_000 + " x y", "1" + " " * 200_000 + "x y", " " * 200_000]
)
def test_hostile_text_is_refused_quickly_and_quoted_briefly(text: str) -> None:
    start = time.process_time()
    with pytest.raises(errors.QuantityError) as caught:
        parse(text, "B/s")
    assert len(caught.value.message) < 200
    assert time.process_time() - start < 0.25  # quadratic matching took minutes


@given(st.text() | st.from_regex(r"[-+]?[0-9.]{1,400}([eE][-+]?[0-9]{1,4})? [TkMiGB]*"))
def test_any_text_is_a_finite_number_or_refused(text: str) -> None:
    try:
        value = parse(text, "B")
    except errors.QuantityError:
        return
    assert math.isfinite(value)


@given(st.integers(-(10**15), 10**15), st.sampled_from(sorted(PREFIX)))
def test_a_prefix_is_a_power_of_ten_or_of_1024(number: int, prefix: str) -> None:
    powers = {"n": -9, "µ": -6, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
    binary = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4}
    exact = (
        number * Fraction(1024) ** binary[prefix]
        if prefix in binary
        else number * Fraction(10) ** powers[prefix]
    )
    assert parse(f"{number} {prefix}B", "B") == pytest.approx(float(exact), rel=1e-15)


@given(finite, st.sampled_from(["B/s", "s", "FLOP/s"]))
def test_what_is_shown_reads_back_to_the_digits_shown(value: float, unit: str) -> None:
    text = show(value, unit, digits=6).replace(",", "")
    if abs(value) < 1e291:  # beyond, rounding up can overflow
        assert parse(text, unit) == pytest.approx(value, rel=1e-5, abs=1e-320)


@given(st.floats(1.0, 1e15))
def test_a_binary_prefix_reads_back_too(value: float) -> None:
    assert parse(show_binary(value, digits=6).replace(",", ""), "B") == pytest.approx(
        value, rel=1e-5
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 B/s"),
        (999.4, "999 B/s"),
        (999.6, "1.00 kB/s"),
        (1e12, "1.00 TB/s"),
        (-3.35e12, "-3.35 TB/s"),
        (math.inf, "inf B/s"),
    ],
)
def test_figures_are_shown_with_a_prefix_that_people_use(value: float, text: str) -> None:
    assert show(value, "B/s") == text


def test_capacities_and_counts_are_shown_plainly() -> None:
    assert show_binary(1023 * 2.0**30, digits=4) == "1023 GiB"
    assert show_binary(512.0) == "512 B"
    assert count(8030261248) == "8,030,261,248"


def test_an_error_shows_its_place_and_keeps_its_parts_apart() -> None:
    error = errors.DocumentError("no", hint="do", where="f:1:2")
    assert error.told == "f:1:2: no"
    assert str(error) == "f:1:2: no\nhint: do"
    assert (error.message, error.hint, error.where) == ("no", "do", "f:1:2")
    assert errors.QuantityError("no", hint="do").told == "no"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.InputError, 2),
        (errors.DocumentError, 2),
        (errors.UnknownNameError, 2),
        (errors.MissingRateError, 2),
        (errors.InfeasibleError, 1),
        (errors.MissingEnvironmentError, 3),
    ],
)
def test_exit_codes_follow_the_kind_of_error(kind: type[errors.RooflineError], code: int) -> None:
    assert kind("no", hint="do").exit_code == code


def test_bytes_and_operations_below_one_have_no_thousandths() -> None:
    assert show(0.51953125, "B") == "0.520 B"
    assert show(0.25, "FLOP") == "0.250 FLOP"
    assert show(0.25, "s") == "250 ms"
