"""Numbers of a pair of graphs that DP-GT's theorems are stated in."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from fedatlas.schema.graphs import check_common_root, in_laplacian, out_laplacian


@dataclass(frozen=True)
class GraphQuantities:
    """Of weights R and C, (n, n), where [i, j] > 0 iff i receives from j: DP-GT, Lemma 1.

    states_received, trackers_received: (n,) Σ_j R_ij and Σ_j C_ij.
    state_laplacian, tracker_laplacian: L1 = diag(R1) − R and L2 = diag(1ᵀC) − C, (n, n).
    left_vector, right_vector: (n,) v1, v2 ≥ 0 with v1ᵀL1 = 0, L2v2 = 0; each sums to n.
    state_rate: r_L1, with which I − αL1 − (1/n)1v1ᵀ has the spectral radius 1 − α r_L1; it depends
        on α where L1 has complex eigenvalues. tracker_rate: r_L2, likewise of I − βL2 − (1/n)v2 1ᵀ.
    state_radius: ρ_L1, the largest modulus of an eigenvalue of L1.

    The paper's ρ_W1 and ρ_W2, of W1 = I − (1/n)1v1ᵀ and W2 = I − (1/n)v2 1ᵀ, are 1 for all graphs:
    both matrices are projections.
    """

    states_received: np.ndarray
    trackers_received: np.ndarray
    state_laplacian: np.ndarray
    tracker_laplacian: np.ndarray
    left_vector: np.ndarray
    right_vector: np.ndarray
    state_rate: float
    tracker_rate: float
    state_radius: float

    @classmethod
    def of(cls, states: np.ndarray, trackers: np.ndarray, alpha: float, beta: float) -> Self:
        """The numbers of R = states and C = trackers at the couplings α and β.

        Raises FedatlasError where the graphs violate Assumption 1, without which v1 and v2 are not
        unique or v1ᵀv2 is 0.
        """
        check_common_root(states, trackers)
        of_states, of_trackers = in_laplacian(states), out_laplacian(trackers)
        eigenvalues = np.linalg.eigvals(of_states)
        return cls(
            states_received=states.sum(axis=1),
            trackers_received=trackers.sum(axis=1),
            state_laplacian=of_states,
            tracker_laplacian=of_trackers,
            left_vector=_null_vector(of_states.T),
            right_vector=_null_vector(of_trackers),
            state_rate=_rate(eigenvalues, alpha),
            tracker_rate=_rate(np.linalg.eigvals(of_trackers), beta),
            state_radius=float(np.abs(eigenvalues).max()),
        )


def _null_vector(laplacian: np.ndarray) -> np.ndarray:
    """v ≥ 0 with laplacian v = 0 that sums to n; it is unique where there is a spanning tree."""
    n = len(laplacian)
    stacked = np.vstack([laplacian, np.ones(n)])
    vector = np.linalg.lstsq(stacked, np.append(np.zeros(n), n), rcond=None)[0]
    return np.where(np.abs(vector) < _ROUNDING, 0.0, vector)


_ROUNDING = 1e-12


def _rate(eigenvalues: np.ndarray, coupling: float) -> float:
    """(1 − ρ)/coupling, ρ the largest |1 − coupling λ| over eigenvalues but the one that is 0."""
    # Subtracting the rank-one matrix moves that one from 1 to 0 and leaves the others.
    others = np.delete(eigenvalues, np.abs(eigenvalues).argmin())
    return float((1 - np.abs(1 - coupling * others).max()) / coupling)
