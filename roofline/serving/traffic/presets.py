"""Workloads by name: those of ``scenarios/workloads/``, and files of one's own."""

from roofline.content import shipped, shipped_or_own
from roofline.kept import kept
from roofline.serving.traffic.traffic import Traffic


def preset_names() -> list[str]:
    """Workloads of the catalog, sorted."""
    return sorted(path.stem for path in (shipped("scenarios") / "workloads").glob("*.yaml"))


def traffic_named(name_or_path: str) -> Traffic:
    """Workload by name, or of a file; UnknownNameError or DocumentError where there is none.

    Examples:
        >>> traffic_named("chat").title
        'Chat, as one message and its answer'
    """
    path = shipped_or_own("workload", name_or_path, shipped("scenarios") / "workloads")

    def read() -> Traffic:
        from roofline.serving.traffic.files import read_traffic

        return read_traffic(path)[0]

    return kept(read, "workload", [path])
