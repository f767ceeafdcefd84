"""FedAvg by fedatlas."""

from fedatlas_rounds import training
from linear_data import client_samples
from measuring import Timed, job_of_command_line, report

from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.schema.objectives import LinearObjective


def main() -> None:
    job = job_of_command_line()
    values = job.values
    engine = CompiledEngine(client_samples(job), LinearObjective(name="robust_regression"))
    trained = training("fedavg", engine, values)
    trained(10)  # compiles, or loads the compiled code
    with Timed() as timed:
        trained(values["rounds"])
    # For the others, who may have fewer rounds.
    points = {f"x{rounds}": trained(rounds) for rounds in values["compared_after"]}
    report(job, timed, values["rounds"], **points)


if __name__ == "__main__":
    main()
