"""Synthetic(α, β): rows of clients whose inputs and labels differ as much as is declared."""

from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeFloat, model_validator

from fedatlas.arithmetic.randomness import named_stream
from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, Files
from fedatlas.schema.models import Model

# Rows of a client: FEWEST more than a log-normal number with these two of its logarithm.
FEWEST, MEAN, DEVIATION = 50, 4.0, 2.0
TRAINING = 0.9
#: The column that says whose a row is, by which a partition shares rows out.
COLUMN = "client"


class SyntheticClients(Model):
    """Synthetic(α, β) of Li et al. (FedProx, MLSys 2020, section 5.1), with d features, C classes.

    Client k draws u ~ N(0, α) and B ~ N(0, β). Its labels are argmax(xW + b), the entries of
    W (d, C) and of b (C,) being N(u, 1); its rows are x ~ N(v, Σ), the entries of v (d,) being
    N(B, 1) and Σ diagonal with j^−1.2. It has 50 + ⌊z⌋ rows, log z ~ N(4, 2); nine of ten are in
    split train, the others in split test. All normal distributions are written with their
    deviations, as the authors' code draws them. The column `client` says whose a row is.

    alpha: α, by how much clients' models differ. beta: β, by how much their inputs do. At 0 they
        still differ, but alike.
    clients: how many, 30 in the paper.
    seed: of all; a client's rows do not depend on how many there are.
    """

    seed: int = Field(ge=0)
    alpha: NonNegativeFloat
    beta: NonNegativeFloat
    clients: int = Field(ge=1)


class SyntheticClientsDataset(Dataset):
    """synthetic_clients: the numbers of the model."""

    files_of_split: ClassVar[Files] = "no files"

    format: Literal["synthetic_clients"]
    synthetic_clients: SyntheticClients

    @model_validator(mode="after")
    def _has_classes_and_two_splits(self) -> Self:
        if self.task != "multiclass" or self.labels is not None:
            raise ValueError("'format: synthetic_clients' has 'task: multiclass' and no 'labels'")
        for name in self.splits:
            if name not in ("train", "test"):
                raise ValueError(
                    f"split '{name}': 'format: synthetic_clients' has the splits train and test"
                )
        return self

    @property
    def kept(self) -> tuple[str, ...]:
        return (COLUMN,)

    def read(self, split: str, raw: list[Path]) -> Samples:
        assert self.classes is not None  # a multiclass set has them
        return make_clients(self.synthetic_clients, self.features, self.classes, split)


def make_clients(made: SyntheticClients, features: int, classes: int, split: str) -> Samples:
    """One split, client by client, (n, d) dense features; train and test share clients' models."""
    scale = np.arange(1, features + 1) ** -0.6
    rows, labels, sizes = [], [], []
    for client in range(made.clients):
        random = named_stream(made.seed, f"client {client}")
        model_mean, input_mean = random.normal(0, [made.alpha, made.beta])
        weights = random.normal(model_mean, 1, (features, classes))
        bias = random.normal(model_mean, 1, classes)
        centre = random.normal(input_mean, 1, features)
        number = FEWEST + int(random.lognormal(MEAN, DEVIATION))
        drawn = centre + scale * random.standard_normal((number, features))
        first = int(TRAINING * number)
        own = drawn[:first] if split == "train" else drawn[first:]
        rows.append(own)
        labels.append(np.argmax(own @ weights + bias, axis=1).astype(np.float64))
        sizes.append(len(own))
    client_of_row = np.repeat(np.arange(made.clients), sizes).tolist()
    return Samples.numbered(np.concatenate(labels), np.concatenate(rows), {COLUMN: client_of_row})
