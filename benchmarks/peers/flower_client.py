"""What a client of Flower does; a module, so that the simulation's workers read the job once."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from dense_data import dense_rows
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from measuring import Job

app = ClientApp()


@cache
def _job() -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    job = Job(Path(os.environ["PEER_JOB"]), Path(os.environ["PEER_OUTPUT"]))
    return *dense_rows(job), job.arrays["draws"], job.values


@app.train()
def train(message: Message, context: Context) -> Message:
    """Local steps in numpy on the minibatches that were drawn for this place in this round."""
    features, labels, draws, values = _job()
    config = message.content["config"]
    (y,) = message.content["arrays"].to_numpy_ndarrays()
    y = y.copy()
    for rows in draws[config["server-round"] - 1, config["place"]]:
        a = features[rows]
        residual = a @ y - labels[rows]
        slope = residual / (1 + 0.5 * residual * residual) / len(rows)
        y -= values["step_size"] * (slope @ a)
    samples = values["local_steps"] * values["batch_size"]
    content = {
        "arrays": ArrayRecord([y]),
        "metrics": MetricRecord({"num-examples": samples}),
    }
    return Message(content=RecordDict(content), reply_to=message)
