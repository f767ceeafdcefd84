"""Small logs by the programs that write them, as tests/logs has them: `make_logs.py FOLDER`.

Versions: environments/logs.txt. All but benchopt and IOHprofiler log the curves of `curve`. What
tests do not read was deleted: of W&B all but `*.wandb`, of MLflow tags and the paths of artifacts.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROUNDS = (0, 1, 2, 3)


def curve(run: str, seed: int) -> dict[str, list[float]]:
    """Accuracy and bytes by round, of a run and a seed."""
    start = {"fedavg": 0.1, "scaffold": 0.2}[run]
    return {
        "accuracy": [start + 0.01 * seed + 0.125 * at for at in ROUNDS],
        "bytes": [1000.0 * at for at in ROUNDS],
    }


RUNS = [(run, seed) for run in ("fedavg", "scaffold") for seed in (0, 1)]


def tensorboard(folder: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    for run, seed in RUNS:
        writer = EventFileWriter(str(folder / run / f"seed{seed}"))
        for tag, values in curve(run, seed).items():
            for at, value in zip(ROUNDS, values, strict=True):
                summary = Summary(value=[Summary.Value(tag=f"test/{tag}", simple_value=value)])
                writer.add_event(Event(step=at, summary=summary, wall_time=1000 + at))
        writer.close()


def wandb(folder: Path) -> None:
    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DISABLE_CODE": "true"}
    import wandb as library

    for run, seed in RUNS[:2]:
        settings = library.Settings(x_disable_stats=True, x_disable_meta=True, console="off")
        opened = library.init(
            dir=folder,
            project="p",
            name=f"{run}-{seed}",
            config={"algorithm": run, "seed": seed},
            settings=settings,
        )
        own = curve(run, seed)
        for at in ROUNDS:
            opened.log({"test/accuracy": own["accuracy"][at], "bytes": own["bytes"][at]}, step=at)
        opened.finish()


def mlflow(folder: Path) -> None:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow as library

    library.set_tracking_uri(folder.absolute().as_uri())
    library.set_experiment("p")
    for run, seed in RUNS[:2]:
        with library.start_run(run_name=f"{run}-{seed}"):
            library.log_params({"algorithm": run, "seed": seed})
            own = curve(run, seed)
            for at in ROUNDS:
                library.log_metrics(
                    {"test/accuracy": own["accuracy"][at], "bytes": own["bytes"][at]}, step=at
                )


def flower(folder: Path) -> None:
    from flwr.app import MetricRecord
    from flwr.server.history import History
    from flwr.serverapp.strategy import Result

    folder.mkdir()
    for run, seed in RUNS:
        own = curve(run, seed)["accuracy"]
        if seed == 0:
            history = History()
            for at, value in zip(ROUNDS, own, strict=True):
                history.add_metrics_centralized(at, {"accuracy": value})
                history.add_loss_centralized(at, 1 - value)
            content = vars(history)
        else:
            result = Result(
                evaluate_metrics_serverapp={
                    at: MetricRecord({"accuracy": value, "loss": 1 - value})
                    for at, value in zip(ROUNDS, own, strict=True)
                }
            )
            found = result.evaluate_metrics_serverapp
            content = {"evaluate_metrics_serverapp": {at: dict(one) for at, one in found.items()}}
        (folder / f"{run}-{seed}.json").write_text(json.dumps(content), encoding="utf-8")


def ioh(folder: Path) -> None:
    import ioh as library

    logger = library.logger.Analyzer(
        root=str(folder.parent),
        folder_name=folder.name,
        algorithm_name="random",
        triggers=[library.logger.trigger.ALWAYS],
    )
    for instance in (1, 2):
        problem = library.get_problem("Sphere", instance, 2, library.ProblemClass.BBOB)
        problem.attach_logger(logger)
        for point in ([1.0, 1.0], [0.5, 0.5], [0.25, 0.0], [0.9, 0.9]):
            problem(point)
        problem.reset()
    logger.close()


BENCHMARK = {
    "objective.py": """
class Objective(benchopt.BaseObjective):
    name = "quadratic"

    def set_data(self, target):
        self.target = target

    def evaluate_result(self, found):
        value = float(((found - self.target) ** 2).sum())
        return {"value": value, "test_accuracy": 1 / (1 + value)}

    def get_one_result(self):
        return {"found": np.zeros_like(self.target)}

    def get_objective(self):
        return {"target": self.target}
""",
    "datasets/ones.py": """
class Dataset(benchopt.BaseDataset):
    name = "ones"

    def get_data(self):
        return {"target": np.ones(3)}
""",
    "solvers/NAME.py": """
class Solver(benchopt.BaseSolver):
    name = "NAME"
    sampling_strategy = "iteration"

    def set_objective(self, target):
        self.target = target

    def run(self, steps):
        self.found = (1 - 0.5**steps) * self.target

    def get_result(self):
        return {"found": self.found}
""",
}


def benchopt(folder: Path) -> None:
    made = folder / "benchmark"
    for name, text in BENCHMARK.items():
        for solver in ("gd", "sgd") if "NAME" in name else ("",):
            file = made / name.replace("NAME", solver)
            file.parent.mkdir(parents=True, exist_ok=True)
            head = "import benchopt\nimport numpy as np\n\n"
            file.write_text(head + text.replace("NAME", solver), encoding="utf-8")
    program = [sys.executable, "-m", "benchopt", "run", str(made), "--max-runs", "4"]
    subprocess.run([*program, "--n-repetitions", "2", "--no-plot", "--no-html"], check=True)
    (written,) = made.glob("outputs/*.parquet")
    written.rename(folder / "runs.parquet")
    shutil.rmtree(made)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for make in (tensorboard, wandb, mlflow, flower, ioh, benchopt):
        if sys.argv[2:] and make.__name__ not in sys.argv[2:]:
            continue
        shutil.rmtree(target / make.__name__, ignore_errors=True)
        make(target / make.__name__)
