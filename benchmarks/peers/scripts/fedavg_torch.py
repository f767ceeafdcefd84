"""FedAvg as a plain loop in torch: client by client, step by step, autograd and torch.optim.SGD."""

import numpy as np
import torch
from dense_data import dense_rows
from measuring import job_of_command_line, time_rounds


def main() -> None:
    torch.set_num_threads(1)
    job = job_of_command_line()
    values, draws = job.values, torch.from_numpy(job.arrays["draws"]).long()
    features, labels = (torch.from_numpy(part) for part in dense_rows(job))

    def trained(rounds: int) -> np.ndarray:
        x = torch.zeros(features.shape[1], dtype=torch.float64)
        for picked in draws[:rounds]:
            total = torch.zeros_like(x)
            for client in picked:
                y = x.clone().requires_grad_()
                optimiser = torch.optim.SGD([y], lr=values["step_size"])
                for rows in client:
                    optimiser.zero_grad()
                    residual = features[rows] @ y - labels[rows]
                    torch.log1p(0.5 * residual**2).mean().backward()
                    optimiser.step()
                total += y.detach()
            x = total / len(picked)
        return x.numpy()

    time_rounds(job, trained, warm_up=3)


if __name__ == "__main__":
    main()
