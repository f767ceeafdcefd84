"""Silos that train networks: slices on a device, embeddings, gradients."""

from dataclasses import dataclass

import numpy as np
import torch

from fedatlas.arithmetic.batched_network import Pullback
from fedatlas.arithmetic.network_losses import Classification, classification
from fedatlas.arithmetic.torch_device import TorchArrays, available
from fedatlas.federations.shards import ClientSamples, TieredSamples, rows_by_client
from fedatlas.federations.tiered.hubs import SiloModels, TieredProblem
from fedatlas.federations.torch_networks import NetworkOnDevice
from fedatlas.schema.objectives import ClassificationObjective


@dataclass(frozen=True)
class _Group:
    """Clients of a silo whose gradients are taken together.

    clients: (C,). inputs: (C, b, *shape), padded. targets, place: (C, b), place being that in ζ.
    share: (C, b) 1/|ζ_k|, 0 of padding.
    """

    clients: torch.Tensor
    inputs: torch.Tensor
    targets: torch.Tensor
    place: torch.Tensor
    share: torch.Tensor


@dataclass(frozen=True)
class _SiloBatch:
    """A silo's slices of the minibatch, by client.

    inputs: (B, *shape). place: (B,) of each in ζ. sizes: (K,) |ζ_k|. groups: of all clients that
    have samples.
    """

    inputs: torch.Tensor
    place: torch.Tensor
    sizes: np.ndarray
    groups: tuple[_Group, ...]


class NetworkSilos(TorchArrays, TieredProblem):
    """The engine of networks; its arrays are torch's, float32 unless told otherwise."""

    def __init__(
        self,
        data: TieredSamples,
        objective: ClassificationObjective,
        device: str,
        dtype: torch.dtype = torch.float32,
        vectorised: bool | None = None,
    ) -> None:
        """Move all slices to the device; FedatlasError if labels are no classes."""
        super().__init__(data)
        self._device, first = available(device), data.silos[0]
        self._loss = classification(
            objective, first.metadata["dataset"], first.samples, first.test, self._device
        )
        self._silos = tuple(
            _Silo(silo, place, objective, self._loss, self._device, dtype, vectorised)
            for silo, place in zip(data.silos, data.place, strict=True)
        )

    def start(self, seed: int) -> SiloModels:
        """The silos' networks as they are initialised under a seed, each under one of its own."""
        seeds = np.random.SeedSequence(seed).generate_state(self.silos)
        return SiloModels(
            tuple(
                silo.network.initial(int(own)) for silo, own in zip(self._silos, seeds, strict=True)
            ),
            tuple(silo.network.initial_statistics() for silo in self._silos),
        )

    def state_dict(self, silo: int, models: SiloModels) -> dict[str, np.ndarray]:
        """The silo's network h_j, as torch names its parts."""
        network = self._silos[silo].network
        return network.state_dict(models.weights[silo], models.statistics[silo])

    def measure(self, models: SiloModels) -> dict[str, float]:
        silos = list(zip(self._silos, models.weights, models.statistics, strict=True))
        outputs = torch.stack([silo.train_outputs(*model) for silo, *model in silos]).sum(0)
        targets = self._silos[0].train_targets  # labels are the same in all silos
        slopes = self._loss.slopes(outputs, targets) / self.samples
        squares = [silo.gradient(*model, slopes).double().square().sum() for silo, *model in silos]
        measured = {
            "objective": float(self._loss.losses(outputs, targets).double().mean()),
            "gradient_norm": float(torch.stack(squares).sum().sqrt()),
        }
        measured |= self._loss.qualities("train", outputs, targets)
        if (targets := self._silos[0].test_targets) is not None:
            outputs = torch.stack([silo.test_outputs(*model) for silo, *model in silos]).sum(0)
            measured |= self._loss.qualities("test", outputs, targets)
        return measured


class _Silo(NetworkOnDevice):
    """The slices of one silo and its network h_j."""

    def __init__(
        self,
        data: ClientSamples,
        place: np.ndarray,
        objective: ClassificationObjective,
        loss: Classification,
        device: torch.device,
        dtype: torch.dtype,
        vectorised: bool | None,
    ) -> None:
        self._load(
            data, objective.model, loss.outputs, device, dtype, vectorised,
            hidden=objective.hidden, batch_statistics=True,
        )  # fmt: skip
        self._loss, self._targets = loss, loss.targets(self._train.label)
        self._row_of, self._offsets = place, data.offsets
        self._rows = torch.tensor(place, device=device)
        #: By ascending id, (M,).
        self.train_targets = self._targets[self._rows]
        self.test_targets = None if self._test is None else loss.targets(self._test.label)

    def batch(self, samples: np.ndarray) -> _SiloBatch:
        """The slices of these samples, (B,)."""
        rows, place, starts, sizes = rows_by_client(self._row_of, self._offsets, samples)
        taken = torch.from_numpy(rows).to(self._device)
        inputs, targets = self._train.at(taken), self._targets[taken]
        places = torch.from_numpy(place).to(self._device)
        groups = tuple(
            self._group(clients, starts, inputs, targets, places)
            for clients in self._together(sizes)
        )
        return _SiloBatch(inputs, places, sizes, groups)

    def embeddings(self, weights: torch.Tensor, batch: _SiloBatch) -> torch.Tensor:
        """Φ_j of the minibatch, (B, E), at weights (d_j,)."""
        if self.network.statistics:
            parts = [
                self.network.training_outputs(weights, group.inputs[0]) for group in batch.groups
            ]
            by_client = torch.cat(parts)
        else:
            by_client = self.network.outputs(weights, batch.inputs.__getitem__, len(batch.inputs))
        found = torch.empty_like(by_client)
        found[batch.place] = by_client
        return found

    def gradients(
        self,
        weights: torch.Tensor,
        statistics: torch.Tensor,
        others: torch.Tensor,
        batch: _SiloBatch,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """g_{k,j}, (K, d_j), at weights (K, d_j), and statistics afterwards, (K, s_j)."""
        gradients = torch.zeros_like(weights, memory_format=torch.contiguous_format)
        after = statistics.clone(memory_format=torch.contiguous_format)
        for group in batch.groups:
            # A client alone by a slice, through which its statistics are updated in place.
            first = int(group.clients[0])
            here = group.clients if len(group.clients) > 1 else slice(first, first + 1)
            _, gradients[here] = self.network.gradients(
                weights[here],
                group.inputs,
                self._pullback(group, others),
                after[here],
                together=len(group.clients) > 1,
            )
        return gradients, after

    def train_outputs(self, weights: torch.Tensor, statistics: torch.Tensor) -> torch.Tensor:
        """Embeddings of all training samples by ascending id, (M, E)."""
        return self._outputs(weights, self._train, statistics)[self._rows]

    def gradient(
        self, weights: torch.Tensor, statistics: torch.Tensor, slopes: torch.Tensor
    ) -> torch.Tensor:
        """∇_j of the objective, (d_j,); slopes: (M, E) of the loss, by ascending id."""
        stored = torch.empty_like(slopes)
        stored[self._rows] = slopes
        _, gradient = self.network.gradient(
            weights, self._train.at, len(stored), lambda _, part: stored[part], statistics
        )
        return gradient

    def test_outputs(self, weights: torch.Tensor, statistics: torch.Tensor) -> torch.Tensor:
        """Embeddings of all test samples, in their order, which is the same in all silos."""
        assert self._test is not None
        return self._outputs(weights, self._test, statistics)

    def _group(
        self,
        clients: np.ndarray,
        starts: np.ndarray,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        places: torch.Tensor,
    ) -> _Group:
        first, sizes = starts[clients], starts[clients + 1] - starts[clients]
        column = np.arange(sizes.max())
        real = column < sizes[:, None]
        share = torch.from_numpy(real / sizes[:, None]).to(self._device, self._dtype)
        if len(clients) == 1:  # a view: nothing is padded
            here = slice(int(first[0]), int(first[0] + sizes[0]))
            own = inputs[here][None], targets[here][None], places[here][None]
        else:
            rows = torch.from_numpy(np.where(real, first[:, None] + column, first[:, None]))
            taken = rows.to(self._device)
            own = inputs[taken], targets[taken], places[taken]
        return _Group(torch.from_numpy(clients).to(self._device), *own, share)

    def _pullback(self, group: _Group, others: torch.Tensor) -> Pullback:
        """Slopes of the mean loss of each client's samples: its own Φ_j beside the stale Φ_{−j}."""
        stale = others[group.place]

        def slopes(outputs: torch.Tensor, clients: slice, samples: slice) -> torch.Tensor:
            here = clients, samples
            of_sum = self._loss.slopes(outputs + stale[here], group.targets[here])
            return group.share[here].unsqueeze(-1) * of_sum

        return slopes
