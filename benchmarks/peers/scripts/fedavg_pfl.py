"""FedAvg by pfl-research's simulated backend, its PyTorch model and its local SGD."""

from itertools import count

import numpy as np
import torch
from dense_data import dense_rows
from measuring import job_of_command_line, time_rounds
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel


class Linear(torch.nn.Module):
    """Robust linear regression, as pfl wants it: with its own loss."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.x = torch.nn.Parameter(torch.zeros(features, dtype=torch.float64))

    def loss(self, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        residual = rows @ self.x - labels
        return torch.log1p(0.5 * residual**2).mean()

    def metrics(self, rows: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
        return {}


def main() -> None:
    torch.set_num_threads(1)
    job = job_of_command_line()
    values, draws = job.values, job.arrays["draws"]
    features, labels = (torch.from_numpy(part) for part in dense_rows(job))
    # A user is a client in a round: its data set is what was drawn for it, in that order.
    rows_of_user = torch.from_numpy(draws.reshape(draws.shape[0] * draws.shape[1], -1)).long()

    def user(number: int) -> Dataset:
        rows = rows_of_user[number]
        return Dataset((features[rows], labels[rows]), user_id=str(number))

    def trained(rounds: int) -> np.ndarray:
        module = Linear(features.shape[1])
        model = PyTorchModel(
            module,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
        )
        users = count()
        training = FederatedDataset(user, lambda: next(users))
        backend = SimulatedBackend(training_data=training, val_data=training)
        FederatedAveraging().run(
            NNAlgorithmParams(
                central_num_iterations=rounds,
                evaluation_frequency=rounds + 1,
                train_cohort_size=values["clients_per_round"],
                val_cohort_size=None,
            ),
            backend,
            model,
            NNTrainHyperParams(
                local_batch_size=values["batch_size"],
                local_num_epochs=1,
                local_learning_rate=values["step_size"],
            ),
        )
        return module.x.detach().numpy()

    time_rounds(job, trained, warm_up=3)


if __name__ == "__main__":
    main()
