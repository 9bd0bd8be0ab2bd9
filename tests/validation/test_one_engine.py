"""What is fitted is what ships: `simulate` with a measured row's settings predicts that row."""

import roofline
from roofline.bench.end_to_end import replay
from roofline.bench.end_to_end.cases import read
from roofline.bench.end_to_end.predicting import prepared
from roofline.bench.engine_profiles import shipped_profile
from tests.validation.measurements import FOLDER, needs

ROWS = FOLDER / "v2" / "e2e.csv.gz"


@needs(ROWS)
def test_simulate_told_a_measured_row_gives_what_is_compared_with_it() -> None:
    """To the last bit, for every visible row of a closed loop whose quality is ok."""
    import pandas as pd

    frame = pd.read_csv(ROWS, low_memory=False)
    chosen = (frame["quality"] == "ok") & (frame["mode"] == replay.CLOSED)
    found, refused = prepared(read(frame[chosen].reset_index(drop=True))[0])
    assert len(found) > 1500
    assert not refused
    unlike = []
    for each in found:
        compared = each.predicted(shipped_profile(each.engine.name))
        said = roofline.simulate(**replay.settings(each), with_intervals=False)
        ttft, _, tpot, _ = (row["mean"] for row in said.tables["headline"].rows())
        if (ttft, tpot) != (compared["ttft_s"], compared["tpot_s"]):
            unlike.append((each.row, ttft, tpot, compared))
    assert not unlike, f"{len(unlike)} of {len(found)}, the first {unlike[0]}"
