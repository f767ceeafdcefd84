"""The CNN of jobs with networks, written out for peers, and its images as torch holds them."""

import torch
from measuring import Job
from torch import nn
from torch.nn.utils import vector_to_parameters


def cnn(start: torch.Tensor) -> nn.Sequential:
    """The network at flat parameters."""
    module = nn.Sequential(
        nn.Conv2d(1, 5, 3), nn.MaxPool2d(2), nn.Tanh(),
        nn.Conv2d(5, 10, 3), nn.MaxPool2d(2), nn.Tanh(),
        nn.Flatten(), nn.Linear(250, 100), nn.Tanh(), nn.Linear(100, 10),
    )  # fmt: skip
    vector_to_parameters(start.clone(), module.parameters())
    return module


def images(job: Job) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalised images (n, 1, 28, 28) and classes (n,)."""
    pixels = torch.from_numpy(job.arrays["pixels"]).float().view(-1, 1, 28, 28)
    normalised = (pixels - job.values["mean"]) / job.values["deviation"]
    return normalised, torch.from_numpy(job.arrays["label"]).long()
