"""Rounds of a method by fedatlas: the file, oracle and counting that experiments run."""

from collections.abc import Callable, Mapping
from typing import Any

from fedatlas.algorithms import algorithm_class
from fedatlas.arithmetic.kernels.drawing import CompiledRandom
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.parts import Counters, StarNetwork


def training(
    method: str, engine: HorizontalProblem, values: Mapping[str, Any], **options: Any
) -> Callable[[int], Any]:
    """From a number of rounds, the server's model after them; values: of the job."""
    algorithm: Any = algorithm_class(method)(
        clients_per_round=values["clients_per_round"],
        local_steps=values["local_steps"],
        batch_size=values["batch_size"],
        local_step_size=values["step_size"],
        **options,
    )

    def trained(rounds: int) -> Any:
        counters = Counters()
        problem, network = engine.counting(counters), StarNetwork(engine.clients, counters)
        random = CompiledRandom(values["seed"])
        state = algorithm.start(problem, network, engine.start(values["seed"]))
        for number in range(rounds):
            state = algorithm.round(state, problem, network, random.at(number))
        return state.x

    return trained
