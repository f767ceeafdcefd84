"""FedAvg by fedatlas: the method and the oracle that experiments run, with all their counting."""

from typing import Any

from linear_data import client_samples
from measuring import Timed, job_of_command_line, report

from fedatlas.algorithms import algorithm_class
from fedatlas.arithmetic.kernels.drawing import CompiledRandom
from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.schema.objectives import LinearObjective


def main() -> None:
    job = job_of_command_line()
    values = job.values
    engine = CompiledEngine(client_samples(job), LinearObjective(name="robust_regression"))
    algorithm: Any = algorithm_class("fedavg")(
        clients_per_round=values["clients_per_round"],
        local_steps=values["local_steps"],
        batch_size=values["batch_size"],
        local_step_size=values["step_size"],
    )

    def trained(rounds: int) -> Any:
        counters = Counters()
        problem = engine.counting(counters)
        network = StarNetwork(problem.clients, counters)
        random = CompiledRandom(values["seed"])
        state = algorithm.start(problem, network, problem.zeros())
        for number in range(rounds):
            state = algorithm.round(state, problem, network, random.at(number))
        return state.x

    trained(10)  # compiles, or loads the compiled code
    with Timed() as timed:
        trained(values["rounds"])
    # For the others, who may have fewer rounds.
    points = {f"x{rounds}": trained(rounds) for rounds in values["compared_after"]}
    report(job, timed, values["rounds"], **points)


if __name__ == "__main__":
    main()
