"""A Ray cluster: the one that ``RAY_ADDRESS`` names, else one on this machine for this sweep."""

import importlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from roofline.errors import MissingEnvironmentError
from roofline.study.executors import TRIES, T, attempt, died, value
from roofline.study.store.chunk import Chunk


@dataclass(frozen=True, slots=True)
class Ray:
    """Tasks on a cluster, each on one core; Ray starts those again whose worker is lost."""

    workers: int | None = None
    """Chunks computed at once; none takes as many as the cluster has cores."""

    def run(
        self, work: Callable[[Chunk], T], chunks: Iterable[Chunk]
    ) -> Generator[tuple[Chunk, T], None, None]:
        """Compute each chunk: see `Executor.run`.

        MissingEnvironmentError where Ray is not installed, or no cluster can be had.
        """
        ray = _library()
        with _joined(ray, self.workers):
            workers = self.workers or int(ray.cluster_resources().get("CPU", 1))
            yield from _computed(ray, work, iter(chunks), 2 * workers)


def _library() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a sweep tells nobody that it runs
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise MissingEnvironmentError(
            "the executor ray needs Ray, which is not installed",
            hint="pip install 'roofline[ray]', or use the executor local",
        ) from None


@contextmanager
def _joined(ray: Any, workers: int | None) -> Iterator[None]:
    """Be part of the cluster that the program is in already, of a named one, or of an own one."""
    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS", "local")
    own = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
    except (OSError, RuntimeError, ValueError) as error:
        raise MissingEnvironmentError(
            f"no Ray cluster can be had at {address!r}: {error}",
            hint="check RAY_ADDRESS and the cluster, or use the executor local",
        ) from error
    # Ray must not print on the standard output, which is for results, that a worker died: no
    # setting of Ray's keeps it from that; this is the switch that its debugger uses.
    ray._private.worker._worker_logs_enabled = False
    try:
        yield
    finally:
        ray._private.worker._worker_logs_enabled = True
        ray.shutdown()


def _computed(
    ray: Any, work: Callable[[Chunk], T], chunks: Iterator[Chunk], room: int
) -> Iterator[tuple[Chunk, T]]:
    """Have chunks computed; no more than some are computed or wait to be fetched."""
    task = ray.remote(num_cpus=1, max_retries=TRIES - 1)(attempt)
    shared = ray.put(work)
    flying: dict[Any, Chunk] = {}
    try:
        while True:
            for chunk in islice(chunks, room - len(flying)):
                flying[task.remote(shared, chunk)] = chunk
            if not flying:
                return
            [ready], _ = ray.wait(list(flying), num_returns=1)
            chunk = flying.pop(ready)
            yield chunk, value(chunk, _fetched(ray, ready, chunk))
    finally:
        for late in flying:
            ray.cancel(late, force=True)


def _fetched(ray: Any, ready: Any, chunk: Chunk) -> Any:
    try:
        return ray.get(ready)
    except ray.exceptions.RayTaskError:
        raise  # a bug, with the traceback of the worker
    except ray.exceptions.RayError as error:
        raise died(chunk, type(error).__name__) from None
