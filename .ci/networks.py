"""Write the page of the families of networks: ``networks.py`` writes it, ``--check`` compares it.

Each row is a ``model_type`` with the configs whose parameters and cache were counted on networks
that transformers built, and what this tree counts from the same configs.
"""

import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "scenarios" / "guide" / "networks.md"
COUNTS = ROOT / "tests" / "golden" / "parameter_counts.csv"
HEAD = """# Networks

Any `config.json` of these families is read: `roofline models show ./config.json`. Each row compares
what roofline counts from configs of a `model_type` with networks that were built from the same
files, parameter by parameter, vision towers included, and cached keys and values of a token.
Another type is refused by name, and so is a field that may change the cost and is not understood:
the message says its line.

Types whose code is not in transformers have no built network; the catalog's files state their
published totals, which a test compares.

| model_type | configs | largest | parameters and cache |
|---|---|---|---|
"""


def page() -> str:
    """The page, from the counted configs and this tree."""
    from roofline.errors import RooflineError
    from roofline.model import parameters
    from roofline.model.huggingface import BUILDERS, from_config
    from roofline.schema import parse_json

    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in csv.DictReader(COUNTS.read_text(encoding="utf-8").splitlines()):
        kind, built = str(json.loads(row["config"])["model_type"]), int(row["parameters"])
        try:
            network = from_config(parse_json(row["config"], "config.json"))
        except RooflineError:
            found[kind].append((built, "refused"))
            continue
        total = parameters.total(network) + sum(network.other_parameters.values())
        cache = parameters.kv_elements_per_token(network)
        right = (total, cache) == (built, int(row["kv_elements_per_token"]))
        found[kind].append((built, "right" if right else "wrong"))
    lines = []
    for kind in sorted(BUILDERS, key=str.lower):
        rows = found.get(kind, [])
        if not rows:
            lines.append(f"| `{kind}` | – | – | published totals |")
            continue
        verdicts = [verdict for _, verdict in rows]
        told = ", ".join(
            f"{verdicts.count(each)} {each}"
            for each in ("right", "refused", "wrong")
            if each in verdicts
        )
        lines.append(f"| `{kind}` | {len(rows)} | {max(n for n, _ in rows):,} | {told} |")
    counted = sum(bool(found.get(kind)) for kind in BUILDERS)
    built = sum(map(len, found.values()))
    tail = f"\n{len(BUILDERS)} types, {counted} of them against {built} built networks.\n"
    return HEAD + "\n".join(lines) + "\n" + tail


def main() -> int:
    """Write the page, or say whether it is as it would be written."""
    made = page()
    if "--check" in sys.argv[1:]:
        same = PAGE.read_text(encoding="utf-8") == made
        print("the page is as counted" if same else "run .ci/networks.py: the page is old")
        return 0 if same else 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
