"""Local SGDA on the AUC min–max problem by fedatlas: all workers of a step at once."""

from typing import Any

import torch
from image_data import client_images
from measuring import Timed, job_of_command_line, report

from fedatlas.algorithms import algorithm_class
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.min_max.engine import AucEngine
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.schema.objectives import AucObjective


def main() -> None:
    torch.set_num_threads(1)
    job = job_of_command_line()
    values = job.values
    objective = AucObjective(name="auc_min_max", model="cnn_28x28")
    images = client_images(values, job.arrays)
    algorithm: Any = algorithm_class("local_sgda")(
        local_steps=values["local_steps"],
        batch_size=values["batch_size"],
        primal_step_size=values["primal_step_size"],
        dual_step_size=values["dual_step_size"],
    )

    def trained(engine: AucEngine, rounds: int) -> Any:
        counters = Counters()
        problem, network = engine.counting(counters), StarNetwork(values["workers"], counters)
        random = RoundRandom(values["seed"])
        state = algorithm.start(problem, network, engine.start(values["seed"]))
        for number in range(rounds):
            state = algorithm.round(state, problem, network, random.at(number))
        return state

    engine = AucEngine(images, objective, "cpu")
    trained(engine, 1)
    with Timed() as timed:
        trained(engine, values["rounds"])
    # Where rounding is small against the tolerance.
    state = trained(AucEngine(images, objective, "cpu", torch.float64), values["rounds"])
    steps = values["rounds"] * values["local_steps"]
    report(job, timed, steps, theta=state.theta.numpy(), w=state.w.numpy())


if __name__ == "__main__":
    main()
