"""FedAvg by Flower's simulation (Ray): a message to each client in every round, one worker."""

import logging
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from flower_client import app
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from measuring import Timed, job_of_command_line, peak_memory, report

_WARM_UP = 2  # rounds: the first starts the worker


class PlacedFedAvg(FedAvg):
    """Flower's FedAvg; the clients it samples are told whose minibatches they take."""

    def configure_train(self, *arguments: Any, **others: Any) -> Iterable[Message]:
        for place, message in enumerate(super().configure_train(*arguments, **others)):
            content = dict(message.content.items())
            content["config"] = ConfigRecord({**content["config"], "place": place})
            yield Message(
                content=RecordDict(content),
                message_type=message.metadata.message_type,
                dst_node_id=message.metadata.dst_node_id,
            )


def main() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)
    job = job_of_command_line()
    values = job.values
    os.environ["PEER_JOB"], os.environ["PEER_OUTPUT"] = str(job.folder), str(job.output)
    found: dict[str, Any] = {}
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        def trained(rounds: int) -> np.ndarray:
            # As few as there may be: `min_train_nodes` says how many train.
            strategy = PlacedFedAvg(
                fraction_train=1e-9,
                fraction_evaluate=0.0,
                min_train_nodes=values["clients_per_round"],
                min_available_nodes=values["clients"],
            )
            start = ArrayRecord([np.zeros(values["features"])])
            return strategy.start(grid, start, num_rounds=rounds).arrays.to_numpy_ndarrays()[0]

        trained(_WARM_UP)
        with Timed() as timed:
            found["x"] = trained(values["rounds"])
        found["timed"], found["peak"] = timed, peak_memory()

    run_simulation(
        server_app=server,
        client_app=app,
        num_supernodes=values["clients"],
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 1, "include_dashboard": False},
        },
    )
    report(job, found["timed"], values["rounds"], found["peak"], x=found["x"])


if __name__ == "__main__":
    main()
