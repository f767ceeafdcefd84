"""Silos that train blocks of a linear model: margins are summed over silos."""

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.kernels.formulas import LinearModel
from fedatlas.arithmetic.objectives import has_two_classes, norm, quality
from fedatlas.federations.kernels import rows_and_codes, silo_gradients
from fedatlas.federations.shards import ClientSamples, RowsByClient, TieredSamples, rows_by_client
from fedatlas.federations.tiered.hubs import SiloModels, TieredProblem
from fedatlas.schema.objectives import LinearObjective


class LinearSilos(TieredProblem):
    """The engine of linear models: h_j(θ_j; x) = θ_j·x_j, without an intercept, float64.

    The objective is that of the other linear problems, 1/M Σ_p loss(Σ_j θ_j·x_pj, y_p) + weight ·
    regulariser(θ); every client's partial gradient has the regulariser's, at its own θ_kj, too.
    """

    def __init__(self, data: TieredSamples, objective: LinearObjective) -> None:
        """Hold every silo's columns as CSR; FedatlasError if data do not suit the objective."""
        super().__init__(data)
        first = data.silos[0]
        label = first.samples.label[data.place[0]]
        self._has_classes = has_two_classes(objective, first.metadata, first.samples, first.test)
        self._silos = tuple(
            _Silo(*silo, objective) for silo in zip(data.silos, data.place, strict=True)
        )
        whole = sparse.hstack([silo.features[silo.stored] for silo in self._silos], format="csr")
        self._rows, self._objective = sparse.csr_array(whole), objective
        widths = [silo.features.shape[1] for silo in self._silos]
        self._starts = np.concatenate([[0], np.cumsum(widths)]).tolist()
        self._whole = LinearModel(self._rows, label, objective)
        self._label, self._test = label, None
        tests = [silo.test for silo in data.silos if silo.test is not None]
        if tests:
            columns = [sparse.csr_array(test.features) for test in tests]
            self._test = (sparse.csr_array(sparse.hstack(columns)), tests[0].label)

    @cached_property
    def smoothness(self) -> float:
        """max(L, L_max) of TDCD's Theorem 1; found when asked for."""
        from fedatlas.arithmetic.objectives import block_smoothness

        return max(block_smoothness(self._rows, self._starts, self._objective))

    def start(self, seed: int) -> SiloModels:
        """Zeros, as of the other linear problems."""
        return SiloModels(
            tuple(np.zeros(silo.features.shape[1]) for silo in self._silos),
            tuple(np.zeros(0) for _ in self._silos),
        )

    def measure(self, models: SiloModels) -> dict[str, float]:
        x = np.concatenate(models.weights)
        margins = self._whole.margins(x)
        value, gradient = self._whole.value_and_gradient(x, margins)
        measured = {"objective": value, "gradient_norm": norm(gradient)}
        loss = self._objective.loss
        measured |= quality("train", margins, self._label, self._has_classes, loss)
        if self._test is not None:
            features, label = self._test
            measured |= quality("test", features @ x, label, self._has_classes, loss)
        return measured


class _Silo:
    """The columns of one silo, ordered by its clients."""

    def __init__(self, data: ClientSamples, stored: np.ndarray, objective: LinearObjective) -> None:
        """stored: (M,) the row of every sample, by ascending id."""
        self.features, self._csr, self._codes = rows_and_codes(data.samples, objective)
        self.stored, self._offsets = stored, data.offsets

    def batch(self, samples: np.ndarray) -> RowsByClient:
        """The rows of these samples, (B,)."""
        return rows_by_client(self.stored, self._offsets, samples)

    def embeddings(self, weights: np.ndarray, batch: RowsByClient) -> np.ndarray:
        """Φ_j of the minibatch, (B,), at weights (d_j,)."""
        found = np.empty(len(batch.rows))
        found[batch.place] = self.features[batch.rows] @ weights
        return found

    def gradients(
        self, weights: np.ndarray, statistics: Any, others: np.ndarray, batch: RowsByClient
    ) -> tuple[np.ndarray, Any]:
        """g_{k,j}, (K, d_j), at weights (K, d_j), and no statistics."""
        rows, place, bounds, _ = batch
        others, weights = others[place], np.ascontiguousarray(weights)
        gradients = silo_gradients(*self._csr, rows, bounds, others, *self._codes, weights)
        return gradients, statistics
