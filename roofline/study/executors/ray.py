"""A Ray cluster: the one that ``RAY_ADDRESS`` names, else one on this machine for this sweep."""

import importlib
import os
import shutil
import socket
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

from msgspec import Struct

from roofline import files
from roofline.errors import MissingEnvironmentError
from roofline.study.executors.outcome import TRIES, T, attempt, died, value
from roofline.study.store.chunk import Chunk

SESSION: Final = "roofline-"
"""Prefix of the folders that hold the files of clusters."""
LOCK: Final = "lock"
LOOK_S: Final = 5.0
"""Time between two looks at whether the cluster is there, while no chunk ends. [s]"""
LOOKS: Final = 3
"""Looks without an answer, in a row, after which a cluster is gone; Ray itself waits a minute."""


class Ray(Struct, frozen=True):
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
    """Connect to the program's own cluster, else to a named one, else to one for this sweep."""
    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS", "local")
    own: dict[str, Any] = {}
    if address == "local":
        own = {"num_cpus": workers, "include_dashboard": False}
    with ExitStack() as held:
        try:
            if own and os.name == "posix":
                own["_temp_dir"] = str(held.enter_context(session_folder()))
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


@contextmanager
def session_folder() -> Iterator[Path]:
    """Folder for the files of a cluster, removed at its end; those of killed sweeps go first.

    Ray itself leaves its files behind. A folder is in use as long as its lock is held.
    """
    # Where Ray puts it itself: names of sockets in it must be short.
    root = Path(os.environ.get("RAY_TMPDIR", "/tmp"))
    for left in root.glob(f"{SESSION}*"):
        with suppress(OSError):
            if left.lstat().st_uid != os.getuid():
                continue
            with (left / LOCK).open("rb") as file:
                if files.take(file):
                    _remove(left)
    folder = Path(mkdtemp(prefix=SESSION, dir=root))
    try:
        with (folder / f"{LOCK}-").open("xb") as file:
            files.take(file)
            (folder / f"{LOCK}-").rename(folder / LOCK)  # found by others when it is held
            yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove the folder of a cluster, its lock last, so that a later sweep removes the rest."""
    with suppress(OSError):
        for each in folder.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
            elif each.name != LOCK:
                each.unlink()
        if [each.name for each in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()


def _computed(
    ray: Any, work: Callable[[Chunk], T], chunks: Iterator[Chunk], room: int
) -> Iterator[tuple[Chunk, T]]:
    """Chunks and their values, as they end; at most `room` are under way or wait to be fetched."""
    task = ray.remote(num_cpus=1, max_retries=TRIES - 1)(attempt)
    shared = ray.put(work)
    flying: dict[Any, Chunk] = {}
    missed = 0
    try:
        while True:
            for chunk in islice(chunks, room - len(flying)):
                flying[task.remote(shared, chunk)] = chunk
            if not flying:
                return
            ready, _ = ray.wait(list(flying), num_returns=1, timeout=LOOK_S)
            missed = 0 if ready or _head_listens(ray) else missed + 1
            if missed == LOOKS:
                flying.clear()  # nobody is there to be told that they are not wanted
                raise MissingEnvironmentError(
                    f"the Ray cluster at {ray.get_runtime_context().gcs_address} is gone",
                    hint="run it again, on a cluster or this machine: what was computed is kept",
                )
            for each in ready:
                chunk = flying.pop(each)
                yield chunk, value(chunk, _fetched(ray, each, chunk))
    finally:
        for late in flying:
            ray.cancel(late, force=True)


def _head_listens(ray: Any) -> bool:
    """Whether the head of the cluster accepts connections."""
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=LOOK_S).close()
    except OSError:
        return False
    return True


def _fetched(ray: Any, ready: Any, chunk: Chunk) -> Any:
    try:
        return ray.get(ready)
    except ray.exceptions.RayTaskError:
        raise  # a bug, with the traceback of the worker
    except ray.exceptions.RayError as error:
        raise died(chunk, type(error).__name__) from None
