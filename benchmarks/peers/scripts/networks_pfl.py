"""FedAvg and FedProx with a network by pfl-research's simulated backend and its PyTorch model."""

from itertools import count

import torch
from cnn import cnn, images
from measuring import job_of_command_line, time_rounds
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
from pfl.algorithm.fedprox import FedProx, FedProxParams
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector


class Classifier(torch.nn.Module):
    """The CNN, as pfl wants it: with its own loss."""

    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        self.network = cnn(start)

    def loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(self.network(inputs), labels)

    def metrics(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
        return {}


def main() -> None:
    torch.set_num_threads(1)
    job = job_of_command_line()
    values, draws = job.values, job.arrays["draws"]
    inputs, labels = images(job)
    start = torch.from_numpy(job.arrays["start"])
    # A user is a client in a round: its data set is what was drawn for it, in that order.
    rows_of_user = torch.from_numpy(draws.reshape(draws.shape[0] * draws.shape[1], -1)).long()

    def user(number: int) -> Dataset:
        rows = rows_of_user[number]
        return Dataset((inputs[rows], labels[rows]), user_id=str(number))

    def trained(rounds: int) -> torch.Tensor:
        module = Classifier(start)
        model = PyTorchModel(
            module,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
        )
        users = count()
        training = FederatedDataset(user, lambda: next(users))
        shared = {
            "central_num_iterations": rounds,
            "evaluation_frequency": rounds + 1,
            "train_cohort_size": values["clients_per_round"],
            "val_cohort_size": None,
        }
        if values["method"] == "fedprox":
            own = FedProxParams(**shared, mu=values["options"]["proximal_weight"])
            algorithm = FedProx()
        else:
            own, algorithm = NNAlgorithmParams(**shared), FederatedAveraging()
        algorithm.run(
            own,
            SimulatedBackend(training_data=training, val_data=training),
            model,
            NNTrainHyperParams(
                local_batch_size=values["batch_size"],
                local_num_epochs=1,
                local_learning_rate=values["step_size"],
            ),
        )
        return parameters_to_vector(module.parameters()).detach()

    time_rounds(job, trained, warm_up=1)


if __name__ == "__main__":
    main()
