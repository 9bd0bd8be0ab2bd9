"""Documents that only the program itself writes: a calibration, a run, a sweep, a manifest.

Made in a process of their own, so that what that takes is not counted where they are read.
"""

import sys
from pathlib import Path

from roofline.bench.calibrating import fit_records
from roofline.bench.probe import find, points
from roofline.bench.profile import profile, write
from roofline.bench.recorder import begin
from roofline.bench.records import Records
from roofline.cli import run
from roofline.study.store import manifest
from tests.bench.probes import measurement
from tests.bench.test_calibrating import PUBLISHED, header, planted
from tests.cli.test_report import SCENARIO
from tests.study.store.test_manifest import ENTRIES, HEADER


def main(folder: Path) -> None:
    """Write them into a folder."""
    records = Records(header("rmsnorm"), tuple(planted("rmsnorm", 0.02)))
    fits, _ = fit_records(records, PUBLISHED)
    write(profile(records, fits, PUBLISHED), folder / "calibration.yaml")
    (folder / "sidecar.json").write_text(records.header.model_dump_json(indent=1))
    recorder = begin(
        folder / "recorded", "numpy", {"machine": "toy", "date": "now"}, [find("rmsnorm")]
    )
    point = next(iter(points(find("rmsnorm").probe)))
    recorder.keep(measurement(point, 0.5, 0.25, 1.0, stopped="time"))
    manifest.write(folder / "manifest", HEADER, ENTRIES)
    (folder / "scenario.yaml").write_text(SCENARIO.format(name="one", title="One"))
    assert run(["sweep", str(folder / "scenario.yaml"), "--out", str(folder / "swept")]) == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
