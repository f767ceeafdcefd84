"""The same steps as a plain torch loop with LibAUC: AUCMLoss and its optimiser PESG.

AUCMLoss has α where fedatlas has 1 + w: with α = 1 at the start it is the same problem, but for a
constant. PESG as released moves α by 2(margin + b − a) − 2α, which is not the loss's derivative
(that line is commented out): here α follows its derivative in the loop, and PESG, told of no α,
moves all else, without decay, momentum and clipping.
"""

import numpy as np
import torch
from libauc.losses.auc import AUCMLoss
from libauc.optimizers.pesg import PESG
from measuring import Job, Timed, job_of_command_line, report
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 5, 3),
        nn.MaxPool2d(2),
        nn.Tanh(),
        nn.Conv2d(5, 10, 3),
        nn.MaxPool2d(2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(250, 100),
        nn.Tanh(),
        nn.Linear(100, 1),
        nn.Sigmoid(),
    )


class Training:
    """The loop over rounds, workers and steps, in one precision."""

    def __init__(self, job: Job, dtype: torch.dtype) -> None:
        values, arrays = job.values, job.arrays
        self.values, self.dtype = values, dtype
        self.draws = torch.from_numpy(arrays["draws"]).long()  # (rounds, workers, steps, batch)
        pixels = torch.from_numpy(arrays["pixels"]).to(dtype).reshape(-1, 1, 28, 28)
        self.images = (pixels - values["mean"]) / values["deviation"]
        self.labels = torch.from_numpy(arrays["label"] > 0).to(dtype).unsqueeze(1)
        self.start = torch.cat([torch.from_numpy(arrays["start"]), torch.tensor([0.0, 0.0, 1.0])])

    def run(self, rounds: int) -> torch.Tensor:
        """The averages after so many rounds: the network's parameters, a, b and α."""
        values = self.values
        model = network().to(self.dtype)
        loss_function = AUCMLoss(imratio=values["positive_rate"]).to(self.dtype)
        alpha = loss_function.alpha
        parameters = [*model.parameters(), loss_function.a, loss_function.b, alpha]
        pesg = PESG(
            model.parameters(),
            loss_fn=loss_function,
            lr=values["primal_step_size"],
            clip_value=1e9,
            weight_decay=0,
            epoch_decay=0,
            momentum=0,
        )
        pesg.param_groups[0]["alpha"] = None
        point = self.start.to(self.dtype)
        for drawn in self.draws[:rounds]:
            total = torch.zeros_like(point)
            for worker in drawn:
                vector_to_parameters(point, parameters)
                for rows in worker:
                    pesg.zero_grad()
                    alpha.grad = None
                    scores = model(self.images[rows])
                    loss_function(scores, self.labels[rows], auto=False).backward()
                    pesg.step()
                    # Not in place: its memory is that of the averages.
                    alpha.data = alpha.data + values["dual_step_size"] * alpha.grad
                total += parameters_to_vector(parameters).detach()
            point = total / len(drawn)
        return point


def main() -> None:
    torch.set_num_threads(1)
    job = job_of_command_line()
    rounds = job.values["rounds"]
    training = Training(job, torch.float32)
    training.run(1)
    with Timed() as timed:
        training.run(rounds)
    # Where rounding is small against the tolerance.
    point = Training(job, torch.float64).run(rounds).numpy()
    steps = rounds * job.values["local_steps"]
    report(job, timed, steps, theta=point[:-1], w=np.array([point[-1] - 1]))


if __name__ == "__main__":
    main()
