"""The explorer's page of 460 runs × 5 grid points: its bytes, and how fast an axis changes.

Each trace has 5 seeds × 200 records, six costs, of which four differ by seed, and five
measurements, all of noise that hardly compresses. The first 200 runs are shown at their selected
points; what is timed, in the installed Chromium without a window, is from the change of the cost to
the frame that is painted next; beside it, the processor time of the page's main thread, which other
work on the machine lengthens less. Options: --runs, --points, --repeats, --browser.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
from playwright.sync_api import CDPSession, Page, sync_playwright

from fedatlas.evaluation.verdicts import Verdict, verdicts_to_csv
from fedatlas.files import canonical_json
from fedatlas.pages.explorer import write_page
from fedatlas.schema.claims import Effect
from fedatlas.store.experiment import (
    ExperimentHeading,
    StoredPoint,
    join_traces,
    write_experiment,
)
from fedatlas.store.trace import build_trace

SEEDS, RECORDS, RUNS_OF_EXPERIMENT, SHOWN = 5, 200, 10, 200
COSTS = ("round", "gradient_evaluations", "wall_time", "network")
MEASUREMENTS = ("objective", "gradient_norm", "suboptimality", "train_accuracy", "test_accuracy")
LIMIT_MS, LIMIT_BYTES = 200, 10_000_000

# A frame's callback runs before it is painted, a message that it sends after. It is asked for
# before the change, so that the message comes before what the page leaves until after the frame.
SWITCH = """async cost => {
  const select = document.getElementById("cost");
  const painted = new Promise(done => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = done;
    port2.postMessage(null);
  }));
  select.value = cost;
  const began = performance.now();
  select.dispatchEvent(new Event("change"));
  await painted;
  return performance.now() - began;
}"""


def write_runs(folder: Path, runs: int, points: tuple[str, ...]) -> list[str]:
    """A file of each experiment in the folder; returns their names."""
    random = np.random.default_rng(0)
    shape = (SEEDS, RECORDS)
    experiments = []
    for number in range(0, runs, RUNS_OF_EXPERIMENT):
        experiment = f"made-up-{number // RUNS_OF_EXPERIMENT}"
        names = [f"run-{number + i}" for i in range(min(RUNS_OF_EXPERIMENT, runs - number))]
        stored = []
        for run, point in product(names, points):
            falls = np.cumprod(1 - random.uniform(0, 0.1, shape), axis=1)
            rounds = np.broadcast_to(10.0 * np.arange(RECORDS), shape)
            spent = np.cumsum(random.integers(1_000, 9_000, shape), axis=1).astype(float)
            noise = {name: falls * random.uniform(0.9, 1.1, shape) for name in MEASUREMENTS}
            variables = {
                "round": rounds,
                "gradient_evaluations": spent,
                "sequential_messages": 2 * rounds,
                "sequential_bytes": spent * random.uniform(90, 110),
                "sequential_gradients": spent / 7,
                "wall_time": np.cumsum(random.uniform(0.01, 0.1, shape), axis=1),
                **noise,
            }
            attributes = {
                "paper": "ours",
                "experiment": experiment,
                "run": run,
                "point": point,
                "algorithm": "fedavg",
                "specification": canonical_json(
                    {"hyper_parameters": {"step_size": 0.1, "local_steps": 10, "batch_size": 32}}
                ),
            }
            trace = build_trace(variables, ["ok"] * SEEDS, list(range(SEEDS)), attributes)
            stored.append(StoredPoint(trace, f"Method {run}", point == points[0]))
        heading = ExperimentHeading(
            paper="ours",
            experiment=experiment,
            title=f"Made up, part {number // RUNS_OF_EXPERIMENT}",
            source="none",
            notes="",
            dataset="none",
        )
        write_experiment(join_traces(heading, stored), folder / f"{experiment}.nc")
        experiments.append(experiment)
    return experiments


def make_page(folder: Path, runs: int, points: tuple[str, ...]) -> Path:
    experiments = write_runs(folder, runs, points)
    verdicts = [
        Verdict(
            claim=f"{experiment}/claim",
            case="",
            paper="ours",
            source="Figure 1",
            statement="is faster",
            sentence="",
            question="paper",
            outcome="reproduced",
            evidence="0.5 of 0.7",
            effect=Effect(0.15, 0.1, 0.2, 0.02, "decades", SEEDS),
        )
        for experiment in experiments
    ]
    (folder / "claims.csv").write_text(verdicts_to_csv(verdicts), encoding="utf-8")
    began = time.perf_counter()
    write_page(folder, [folder / "claims.csv"], folder / "explorer.html")
    print(f"{'written in':<34}{time.perf_counter() - began:8.1f} s")
    return folder / "explorer.html"


def busy_ms(session: CDPSession) -> float:
    """Processor time of the page's main thread so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1000 * next(m["value"] for m in metrics if m["name"] == "TaskDuration")


def switches(
    page: Page, file: Path, runs: int, repeats: int
) -> dict[str, list[tuple[float, float]]]:
    """Per switch: times to the next frame, and the main thread's, in ms."""
    chosen = "&".join(
        f"show=made-up-{i}" for i in range(-(-min(runs, SHOWN) // RUNS_OF_EXPERIMENT))
    )
    began = time.perf_counter()
    page.goto(f"{file.as_uri()}#{chosen}&y=gradient_norm&x=round")
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    print(f"{'opened in':<34}{time.perf_counter() - began:8.1f} s")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    times: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repeats):
        for before, cost in zip(COSTS, COSTS[1:] + COSTS[:1], strict=True):
            busy = busy_ms(session)
            waited = page.evaluate(SWITCH, cost)
            times.setdefault(f"{before} to {cost}", []).append((waited, busy_ms(session) - busy))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=460)
    parser.add_argument("--points", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--browser", default=shutil.which("chromium"))
    arguments = parser.parse_args()
    points = tuple(f"point-{i}" for i in range(arguments.points))
    with tempfile.TemporaryDirectory() as folder:
        file = make_page(Path(folder), arguments.runs, points)
        print(f"{'bytes of the page':<34}{file.stat().st_size:12,}   of {LIMIT_BYTES:,}")
        if arguments.browser is None:
            raise SystemExit("no chromium on the path: name a browser with --browser")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=arguments.browser, args=["--no-sandbox"]
            )
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            times = switches(page, file, arguments.runs, arguments.repeats)
            browser.close()
    for name, values in times.items():
        waited, busy = zip(*values, strict=True)
        print(
            f"{name:<34}{statistics.median(waited):6.0f} ms   best {min(waited):.0f}   "
            f"worst {max(waited):.0f}   of {LIMIT_MS}   main thread {statistics.median(busy):.0f}"
        )


if __name__ == "__main__":
    main()
