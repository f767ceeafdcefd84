"""A method with a network by fedatlas."""

import torch
from fedatlas_rounds import training
from measuring import job_of_command_line, time_rounds
from network_data import engine_of


def main() -> None:
    torch.set_num_threads(1)
    job = job_of_command_line()
    engine = engine_of(job.values, job.arrays)
    trained = training(job.values["method"], engine, job.values, **job.values["options"])
    time_rounds(job, trained, warm_up=1)


if __name__ == "__main__":
    main()
