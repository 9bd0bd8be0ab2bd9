"""State of a GPU as its driver tells it. Read only: no clock or limit is ever set."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from msgspec import Struct

from roofline.errors import MissingEnvironmentError
from roofline.units import parse

MHZ: Final = parse("1 MHz", "Hz")
MILLIWATT: Final = parse("1 mW", "W")

WIRES: Final = 18
"""Most NVLinks of a GPU: Hopper's and Blackwell's."""
SLOWED: Final = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature",
    0x40: "hardware temperature",
    0x80: "power brake",
}
"""Reasons for which a clock is lower than it would be by itself: a sample is not the chip's."""
SET: Final = {0x02: "application clocks", 0x10: "sync boost", 0x100: "display clocks"}
"""Reasons that an administrator has set: they hold for all of a run, whose samples count."""
ASKED: Final = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)
"""Functions of NVML that return the reasons: the name since driver 535, then the older one."""


class Clocks(Struct, frozen=True):
    """A GPU at one moment.

    Args:
        sm_hz, memory_hz: Of the multiprocessors and of the memory. [Hz]
        power_w: Drawn. [W]
        temperature_c: Of the chip, in degrees Celsius.
        slowed: Why the clock is held down, most often nothing.
        limited: Limits on the clock that an administrator has set, most often none.
        told: True where the driver gives reasons at all.
    """

    sm_hz: float
    memory_hz: float
    power_w: float
    temperature_c: float
    slowed: tuple[str, ...]
    limited: tuple[str, ...] = ()
    told: bool = True


class Board(Struct, frozen=True):
    """A GPU as it is set up: two of equal fields may be measured as one.

    Args:
        title: Name that the driver gives it.
        memory_bytes: All of it. [B]
        power_limit_w: Enforced. [W]
        most_sm_hz: Highest clock that it may have. [Hz]
        ecc, mig: ``"on"``, ``"off"``, or ``"unknown"`` where the board does not tell.
        driver: Version.
    """

    title: str
    memory_bytes: float
    power_limit_w: float
    most_sm_hz: float
    ecc: str
    mig: str
    driver: str


class Monitor:
    """One GPU, by the index or the bus id that the driver gives it."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._nvml, self._handle = library, handle

    def clocks(self) -> Clocks:
        """Now."""
        n, gpu, bits = self._nvml, self._handle, self._reasons()
        return Clocks(
            self._number(lambda: MHZ * n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_SM)),
            self._number(lambda: MHZ * n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_MEM)),
            self._number(lambda: MILLIWATT * n.nvmlDeviceGetPowerUsage(gpu)),
            self._number(lambda: n.nvmlDeviceGetTemperature(gpu, n.NVML_TEMPERATURE_GPU)),
            reasons(bits or 0),
            reasons(bits or 0, SET),
            bits is not None,
        )

    def slowed(self) -> tuple[str, ...]:
        """Why the clock is held down now; nothing where the driver does not tell."""
        return reasons(self._reasons() or 0)

    def others(self) -> int:
        """Other processes that compute on it; 0 where the driver does not tell. [1]"""
        with suppress(self._nvml.NVMLError):
            found = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
            # Inside a container this process has another number there than here.
            return max(0, len(found) - 1)
        return 0

    def link(self) -> str:
        """Kind of wires to other GPUs: ``"nvlink"`` where one of those is up, else ``"pcie"``."""
        for wire in range(WIRES):
            with suppress(self._nvml.NVMLError):
                if self._nvml.nvmlDeviceGetNvLinkState(self._handle, wire):
                    return "nvlink"
        return "pcie"

    def board(self) -> Board:
        """Name, memory, limits and modes of the GPU."""
        n, gpu = self._nvml, self._handle
        return Board(
            self._text(lambda: n.nvmlDeviceGetName(gpu)),
            self._number(lambda: n.nvmlDeviceGetMemoryInfo(gpu).total),
            self._number(lambda: MILLIWATT * n.nvmlDeviceGetEnforcedPowerLimit(gpu)),
            self._number(lambda: MHZ * n.nvmlDeviceGetMaxClockInfo(gpu, n.NVML_CLOCK_SM)),
            self._switch(lambda: n.nvmlDeviceGetEccMode(gpu)[0]),
            self._switch(lambda: n.nvmlDeviceGetMigMode(gpu)[0]),
            self._text(n.nvmlSystemGetDriverVersion),
        )

    def _reasons(self) -> int | None:
        """Bits of the reasons; None where the driver does not tell."""
        for name in ASKED:
            with suppress(self._nvml.NVMLError, AttributeError):
                return int(getattr(self._nvml, name)(self._handle))
        return None

    def _number(self, read: Callable[[], float]) -> float:
        with suppress(self._nvml.NVMLError):
            return float(read())
        return float("nan")

    def _text(self, read: Callable[[], str | bytes]) -> str:
        with suppress(self._nvml.NVMLError):
            said = read()
            return said.decode() if isinstance(said, bytes) else said
        return "unknown"

    def _switch(self, read: Callable[[], int]) -> str:
        with suppress(self._nvml.NVMLError):
            return "on" if read() else "off"
        return "unknown"


def reasons(bits: int, among: Mapping[int, str] = SLOWED) -> tuple[str, ...]:
    """Reasons that a driver's bits stand for.

    >>> reasons(0x04 | 0x01)
    ('power cap',)
    """
    return tuple(name for bit, name in among.items() if bits & bit)


@contextmanager
def library() -> Iterator[Any]:
    """The driver's management library; closed again at the end.

    Raises:
        MissingEnvironmentError: There is no driver, or it does not answer.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise MissingEnvironmentError(
            f"the driver's management library does not answer: {error}",
            hint="install an NVIDIA driver, or run where there is a GPU; nvidia-smi shows it",
        ) from None
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


@contextmanager
def monitor(bus_id: str | None = None) -> Iterator[Monitor]:
    """The GPU on that PCI bus, or the first; closed again at the end.

    CUDA and the driver count devices differently: CuPy's ``Device.pci_bus_id`` names the same.

    Raises:
        MissingEnvironmentError: If the driver's library is missing or knows no such GPU.
    """
    with library() as nvml:
        try:
            handle = (
                nvml.nvmlDeviceGetHandleByPciBusId(bus_id.encode())
                if bus_id
                else nvml.nvmlDeviceGetHandleByIndex(0)
            )
        except nvml.NVMLError as error:
            raise MissingEnvironmentError(
                f"the driver knows no GPU {bus_id or 0}: {error}", hint="check nvidia-smi"
            ) from None
        yield Monitor(nvml, handle)


def boards() -> tuple[tuple[Board, ...], int]:
    """All GPUs that the driver shows, and the newest CUDA that it runs: 13000 is 13.0.

    Raises:
        MissingEnvironmentError: There is no driver, or it does not answer.
    """
    with library() as nvml:
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        found = tuple(Monitor(nvml, handle).board() for handle in handles)
        return found, int(nvml.nvmlSystemGetCudaDriverVersion())
