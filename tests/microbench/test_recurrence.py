"""Laws of the recurrences that kernels are compared with."""

import numpy as np

from tests.microbench.recurrence import Array, convolution, gated_delta, unit


def drawn(new: int, heads: int = 4, key_heads: int = 2, width: int = 8) -> list[Array]:
    """Queries, keys, values, decays, strengths and a state, random."""
    rng = np.random.default_rng(0)
    shapes = (2, new, key_heads, width), (2, new, key_heads, width), (2, new, heads, 5)
    operands = [rng.standard_normal(shape) for shape in shapes]
    decay, strength = -rng.random((2, new, heads)), rng.random((2, new, heads))
    return [*operands, decay, strength, rng.standard_normal((2, heads, width, 5))]


def test_a_token_replaces_the_value_of_its_key() -> None:
    """Without decay and at full strength, a query that is the key reads the value."""
    _, key, value, decay, strength, state = drawn(1)
    found, _ = gated_delta(key, key, value, 0 * decay, 0 * strength + 1.0, state)
    np.testing.assert_allclose(found * 8**0.5, value, atol=1e-5)


def test_a_state_decays_where_nothing_is_replaced() -> None:
    query, key, value, decay, strength, state = drawn(3)
    _, last = gated_delta(query, key, value, decay, 0 * strength, state)
    np.testing.assert_allclose(last, state * np.exp(decay.sum(axis=1))[..., None, None])


def test_a_prompt_goes_on_where_its_first_part_ends() -> None:
    *operands, state = drawn(7)
    whole, last = gated_delta(*[*operands, state])
    first, between = gated_delta(*[*(each[:, :4] for each in operands), state])
    second, end = gated_delta(*[*(each[:, 4:] for each in operands), between])
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), whole)
    np.testing.assert_allclose(end, last)


def test_key_heads_are_shared_by_neighbouring_heads() -> None:
    query, key, *rest = drawn(3)
    for place in range(4):
        one = [each[..., place : place + 1] for each in rest[1:3]]
        state = rest[3][:, place : place + 1]
        value = rest[0][:, :, place : place + 1]
        shared = slice(place // 2, place // 2 + 1)
        alone, _ = gated_delta(query[:, :, shared], key[:, :, shared], value, one[0], one[1], state)
        whole, _ = gated_delta(query, key, *rest)
        np.testing.assert_allclose(alone[:, :, 0], whole[:, :, place])


def test_vectors_have_length_one() -> None:
    np.testing.assert_allclose((unit(drawn(2)[0]) ** 2).sum(axis=-1), 1.0, rtol=1e-5)


def test_a_convolution_sees_the_last_inputs_alone() -> None:
    rng = np.random.default_rng(1)
    values, weight = rng.standard_normal((2, 9, 3)), rng.standard_normal((3, 4))
    whole = convolution(values, weight)
    later = convolution(values[:, 4:], weight)
    np.testing.assert_allclose(later[:, 3:], whole[:, 7:])
    last = (values[:, 5:] * weight.T).sum(axis=1)
    np.testing.assert_allclose(whole[:, 8], last / (1.0 + np.exp(-last)))
