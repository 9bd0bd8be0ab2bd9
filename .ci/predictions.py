"""Print how the predictions of fixed deployments moved since an earlier commit.

``predictions.py`` prints the table; ``predictions.py --json`` prints this tree's predictions. A
change of a number is then always seen, whether it was meant or not.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOVED = 1e-9

# (model, gpu, options): 30 deployments over networks, devices, formats, layouts and lengths.
DEPLOYMENTS = [
    ("llama-3.1-8b", "h100-sxm", {}),
    ("llama-3.1-8b", "h100-sxm", {"batch": 1, "prompt": 128, "output": 32}),
    ("llama-3.1-8b", "h100-sxm", {"batch": 128, "prompt": 1024, "output": 1024}),
    ("llama-3.1-8b", "h100-sxm", {"batch": 4, "prompt": 100000, "output": 512}),
    ("llama-3.1-8b", "h100-sxm", {"weights": "fp8", "kv": "fp8"}),
    ("llama-3.1-8b", "h100-sxm", {"weights": "int4"}),
    ("llama-3.1-8b", "a100-sxm", {}),
    ("llama-3.1-8b", "a100-sxm", {"weights": "fp8"}),
    ("llama-3.1-8b", "h200-sxm", {"batch": 64}),
    ("llama-3.1-8b", "b200-sxm", {"weights": "nvfp4"}),
    ("llama-3.1-8b", "l4", {"batch": 1}),
    ("llama-3.1-8b", "mi300x", {}),
    ("llama-3.1-8b", "h100-sxm", {"kv_cache": False, "output": 16}),
    ("llama-3.1-8b", "h100-sxm", {"attention": "naive"}),
    ("llama-3.1-8b", "h100-sxm", {"prefix_hit": 0.5, "prefill_batch": 4}),
    ("llama-3.1-70b", "h100-sxm", {"gpus": 8}),
    ("llama-3.1-70b", "h100-sxm", {"gpus": 4, "weights": "fp8"}),
    ("llama-3.1-70b", "a100-sxm", {"gpus": 8, "batch": 64}),
    ("llama-3.1-70b", "h100-sxm", {"gpus": 8, "tp": 4}),
    ("llama-3.1-70b", "h100-sxm", {}),
    ("llama-3.1-405b", "h200-sxm", {"gpus": 8}),
    ("llama-2-7b", "a100-sxm", {"weights": "fp16"}),
    ("llama-2-13b", "h100-sxm", {"convention": "textbook", "batch": 64, "prompt": 1024}),
    ("mistral-7b-v0.1", "a10g", {"prompt": 8192}),
    ("gemma-2-9b", "h100-sxm", {"prompt": 6000, "output": 1024}),
    ("gemma-2-27b", "h100-sxm", {}),
    ("qwen2.5-7b", "l40s", {}),
    ("qwen3-32b", "h100-sxm", {"gpus": 2}),
    ("opt-13b", "v100-sxm", {"prompt": 512}),
    ("phi-3-mini-4k", "rtx-4090", {"prompt": 1024}),
]
METRICS = ("ttft_s", "tpot_s", "throughput_tok_s", "memory")


def predictions() -> list[dict[str, float | str]]:
    """Metrics of every deployment in this tree, or why there are none."""
    import roofline

    out: list[dict[str, float | str]] = []
    for model, gpu, options in DEPLOYMENTS:
        try:
            result = roofline.analyze(model, gpu, **options)
        except Exception as error:
            out.append({"error": str(error)})
            continue
        rows = {
            row["metric"]: row["value"]
            for name in ("headline", "static_batch")
            if name in result.tables
            for row in result.tables[name].rows()
        }
        values: dict[str, float | str] = {name: rows[name] for name in METRICS if name in rows}
        values["memory"] = result.derivations["memory"].value
        out.append(values)
    return out


def of_tree(folder: Path) -> list[dict[str, float | str]] | None:
    """Predictions of another checkout; None where it cannot make any."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


def earlier(base: str) -> list[dict[str, float | str]] | None:
    """Predictions of a commit, from an archive of it."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", base], cwd=ROOT, capture_output=True, check=False
        )
        if archive.returncode:
            return None
        subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
        return of_tree(Path(folder))


def main() -> None:
    if "--json" in sys.argv:
        print(json.dumps(predictions()))
        return
    base = os.environ.get("PREDICTIONS_BASE", "HEAD~1")
    now, before = of_tree(ROOT), earlier(base)
    assert now is not None, "this tree makes no predictions"
    print(f"predictions of {len(DEPLOYMENTS)} deployments; change since {base} in brackets")
    if before is None:
        print(f"{base} makes none (no such commit, or it could not run them)")
        before = [{} for _ in now]
    moved = 0
    for (model, gpu, options), new, old in zip(DEPLOYMENTS, now, before, strict=True):
        name = " ".join([model, gpu, *(f"{key}={value}" for key, value in options.items())])
        cells = []
        for key in METRICS if "error" not in new else ("error",):
            if key not in new:
                continue
            text = f"{new[key]:.5g}" if isinstance(new[key], float) else str(new[key])
            if key in old and isinstance(old[key], float) and isinstance(new[key], float):
                change = new[key] / old[key] - 1 if old[key] else 0.0
                if abs(change) > MOVED:
                    text += f" [{change:+.2%}]"
                    moved += 1
            cells.append(f"{key} {text}")
        print(f"  {name:64s} {'  '.join(cells)}")
    print(f"{moved} figures moved")


if __name__ == "__main__":
    main()
