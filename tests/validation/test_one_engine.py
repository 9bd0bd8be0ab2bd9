"""The fitted model is the one that ships: `simulate` with a row's settings predicts that row."""

import numpy as np

import roofline
from roofline.bench.end_to_end.cases import read
from roofline.bench.end_to_end.driving import CLOSED
from roofline.bench.end_to_end.predicting import prepared
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.bench.engine_profiles import shipped_profile
from tests.bench.end_to_end.synthetic import settings
from tests.cases import ALL
from tests.validation.measurements import FOLDER, needs

ROWS = FOLDER / "v2" / "e2e.csv.gz"


@needs(ROWS)
def test_simulate_told_a_measured_row_gives_what_is_compared_with_it() -> None:
    """To the last bit, for visible rows of closed loops whose quality is ok.

    Every one of them where all cases run, else of each engine and kind of network one deployment:
    its row with the fewest clients and that with a middling number, and of every fourth that with
    the most, which take longest.
    """
    import pandas as pd

    frame = pd.read_csv(ROWS, low_memory=False)
    chosen = (frame["quality"] == "ok") & (frame["mode"] == CLOSED)
    found, refused = prepared(read(frame[chosen].reset_index(drop=True))[0])
    assert len(found) > 1500
    assert not refused
    if not ALL:
        kinds: dict[tuple[str, str], list[PreparedRow]] = {}
        for each in sorted(found, key=lambda each: each.row.batch):
            mine = kinds.setdefault((each.row.case.engine, each.kind), [])
            if not mine or each.row.case == mine[0].row.case:
                mine.append(each)
        every = list(kinds.values())
        found = [mine[place] for mine in every for place in {0, len(mine) // 2}]
        found += [mine[-1] for mine in every[::4]]
    unlike = []
    off: dict[tuple[str, str], list[float]] = {}
    for each in found:
        compared = each.predicted(shipped_profile(each.deployment.engine))
        said = roofline.simulate(**settings(each), with_intervals=False)
        ttft, _, tpot, _ = (row["mean"] for row in said.tables["headline"].rows())
        if (ttft, tpot) != (compared["ttft_s"], compared["tpot_s"]):
            unlike.append((each.row, ttft, tpot, compared))
        for metric, ours in (("tpot_s", tpot), ("ttft_s", ttft)):
            measured = each.row.measured[metric]
            off.setdefault(("simulate", metric), []).append(abs(ours / measured - 1))
            off.setdefault(("validate", metric), []).append(abs(compared[metric] / measured - 1))
    print(f"\n  {len(found)} closed-loop rows, error in %: median, mean, p90")
    for (whose, metric), errors in sorted(off.items(), key=lambda each: each[0][1]):
        figures = np.median(errors), np.mean(errors), np.quantile(errors, 0.9)
        print(f"  {metric} {whose}  " + "  ".join(f"{100 * each:.2f}" for each in figures))
    assert not unlike, f"{len(unlike)} of {len(found)}, the first {unlike[0]}"
