"""SAGA or SVRG by fedatlas' methods over parties, of which there is one, with all columns."""

from typing import Any

import numpy as np
from linear_data import sparse_rows
from measuring import Timed, job_of_command_line, repeated, report

from fedatlas.algorithms import algorithm_class
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.vertical.network import PartyNetwork
from fedatlas.federations.vertical.problem import PartyCounters, PartyProblem
from fedatlas.federations.vertical.shards import PartyRows, PartySamples
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective


def main() -> None:
    job = job_of_command_line()
    values = job.values
    rows = PartyRows(sparse_rows(job), job.arrays["label"], np.array([0, values["features"]]))
    objective = LinearObjective(name="logistic_l2", weight=values["weight"])
    problem = PartyProblem(PartySamples(rows, None, {}), objective)
    algorithm: Any = algorithm_class(values["method"])(
        step_size=values["step_size"], rounds_per_epoch=1
    )

    def trained(epochs: int, until: float | None = None) -> tuple[np.ndarray, int]:
        """The point after so many epochs, or as soon as the objective is not above `until`."""
        network = PartyNetwork(rows, objective, 1, NetworkModel(), PartyCounters(), seed=0)
        random = RoundRandom(0)
        state = algorithm.start(problem, network, np.zeros(problem.dimension))
        for epoch in range(epochs):
            state = algorithm.round(state, problem, network, random.at(epoch))
            if until is not None:
                point = algorithm.point(state, network)
                if problem.measure(point)["objective"] <= until:
                    return point, epoch + 1
        return algorithm.point(state, network), epochs

    # Compiles, too; how many epochs are needed is not part of the time.
    x, epochs = trained(values["epochs_at_most"], values["target"])
    with Timed() as timed:
        solutions = repeated(lambda: trained(epochs))
    report(job, timed, solutions, x=x, epochs=np.array(epochs))


if __name__ == "__main__":
    main()
