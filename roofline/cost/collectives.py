"""Work of moving data between devices."""

from roofline.cost.work import Number, Work


def all_reduce(payload: Number, ranks: int) -> Work:
    """Sum a tensor over all ranks with a ring: reduce-scatter, then all-gather.

    Parameters
    ----------
    payload
        Tensor on each rank. [B]
    ranks
        Devices n. [1]

    Notes
    -----
    Each device sends 2·(n − 1)/n of the tensor in 2·(n − 1) messages.
    Source: Patarasuk and Yuan 2009, bandwidth-optimal all-reduce.

    Examples
    --------
    >>> all_reduce(8.0, 4).wire_bytes
    12.0
    """
    return Work(wire_bytes=(2.0 * (ranks - 1) / ranks) * payload, messages=2.0 * (ranks - 1))


def all_gather(payload: Number, ranks: int) -> Work:
    """Give every rank the whole tensor, of which each holds 1/n.

    Parameters
    ----------
    payload
        Whole tensor. [B]
    ranks
        Devices n. [1]

    Notes
    -----
    Each device sends (n − 1)/n of the tensor in n − 1 messages. Source: ring all-gather, half of
    an all-reduce.

    Examples
    --------
    >>> all_gather(8.0, 4).wire_bytes
    6.0
    """
    return Work(wire_bytes=((ranks - 1) / ranks) * payload, messages=1.0 * (ranks - 1))
