"""FedAvg, FedProx and SCAFFOLD with a network as a plain loop in torch, client by client."""

import torch
from cnn import cnn, images
from measuring import job_of_command_line, time_rounds
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def main() -> None:
    torch.set_num_threads(1)
    job = job_of_command_line()
    values = job.values
    inputs, labels = images(job)
    draws, chosen = (torch.from_numpy(job.arrays[key]).long() for key in ("draws", "chosen"))
    start = torch.from_numpy(job.arrays["start"])
    step_size, steps = values["step_size"], values["local_steps"]
    weight = values["options"].get("proximal_weight", 0.0)
    corrected = values["method"] == "scaffold"

    def trained(rounds: int) -> torch.Tensor:
        module, x = cnn(start), start.clone()
        c, own = torch.zeros_like(x), torch.zeros(values["clients"] if corrected else 0, len(x))
        for clients, picked in zip(chosen[:rounds], draws[:rounds], strict=True):
            moved, changed = torch.zeros_like(x), torch.zeros_like(x)
            for client, rows_of_steps in zip(clients, picked, strict=True):
                vector_to_parameters(x.clone(), module.parameters())
                begin = [part.detach().clone() for part in module.parameters()]
                shift = [torch.zeros_like(part) for part in begin]
                if corrected:
                    vector_to_parameters(c - own[client], shift)
                for rows in rows_of_steps:
                    module.zero_grad()
                    cross_entropy(module(inputs[rows]), labels[rows]).backward()
                    with torch.no_grad():
                        for part, before, other in zip(
                            module.parameters(), begin, shift, strict=True
                        ):
                            direction = part.grad
                            if weight:
                                direction = direction + weight * (part - before)
                            if corrected:
                                direction = direction + other
                            part -= step_size * direction
                y = parameters_to_vector(module.parameters()).detach()
                moved += y - x
                if corrected:
                    renewed = own[client] - c + (x - y) / (steps * step_size)
                    changed += renewed - own[client]
                    own[client] = renewed
            x = x + moved / len(clients)
            c = c + changed / values["clients"]
        return x

    time_rounds(job, trained, warm_up=1)


if __name__ == "__main__":
    main()
