"""SAGA by scikit-learn's LogisticRegression: compiled and centralised, without parties."""

import warnings

import numpy as np
from measuring import Timed, job_of_command_line, repeated, report
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression


def main() -> None:
    # It is told how many epochs to take.
    warnings.simplefilter("ignore", ConvergenceWarning)
    job = job_of_command_line()
    values, arrays = job.values, job.arrays
    labels = arrays["label"]
    # It takes 32-bit indices only.
    parts = (arrays["non_zeros"], arrays["indices"], arrays["indptr"].astype(np.int32))
    rows = sparse.csr_matrix(parts, shape=(len(labels), values["features"]))

    def trained(epochs: int) -> np.ndarray:
        model = LogisticRegression(
            solver="saga",
            C=1 / (len(labels) * values["weight"]),
            fit_intercept=False,
            tol=0,
            max_iter=epochs,
            random_state=0,
        )
        return model.fit(rows, labels).coef_[0]

    def is_there(epochs: int) -> bool:
        x = trained(epochs)
        loss = np.logaddexp(0, -labels * (rows @ x)).mean() + values["weight"] / 2 * (x @ x)
        return bool(loss <= values["target"])

    # The first number of epochs that reaches the target, by doubling and halving.
    enough = 1
    while not is_there(enough) and enough < values["epochs_at_most"]:
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        too_few, enough = (too_few, middle) if is_there(middle) else (middle, enough)
    x = trained(enough)
    with Timed() as timed:
        solutions = repeated(lambda: trained(enough))
    report(job, timed, solutions, x=x, epochs=np.array(enough))


if __name__ == "__main__":
    main()
