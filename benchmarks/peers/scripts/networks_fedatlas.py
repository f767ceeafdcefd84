"""A method with a network by fedatlas: the file, oracle and counting that experiments run."""

from typing import Any

import torch
from measuring import Timed, job_of_command_line, report
from network_data import engine_of

from fedatlas.algorithms import algorithm_class
from fedatlas.arithmetic.kernels.drawing import CompiledRandom
from fedatlas.federations.parts import Counters, StarNetwork


def main() -> None:
    torch.set_num_threads(1)
    job = job_of_command_line()
    values = job.values
    engine = engine_of(values, job.arrays)
    method: Any = algorithm_class(values["method"])(
        clients_per_round=values["clients_per_round"],
        local_steps=values["local_steps"],
        batch_size=values["batch_size"],
        local_step_size=values["step_size"],
        **values["options"],
    )

    def trained(rounds: int) -> Any:
        counters = Counters()
        problem, network = engine.counting(counters), StarNetwork(values["clients"], counters)
        random = CompiledRandom(values["seed"])
        state = method.start(problem, network, engine.start(values["seed"]))
        for number in range(rounds):
            state = method.round(state, problem, network, random.at(number))
        return state.x

    trained(1)
    with Timed() as timed:
        x = trained(values["rounds"])
    report(job, timed, values["rounds"], x=x.numpy())


if __name__ == "__main__":
    main()
