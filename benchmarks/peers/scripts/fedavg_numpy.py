"""FedAvg in numpy: the clients of a round at once, by batched products of dense rows."""

import numpy as np
from dense_data import dense_rows
from measuring import job_of_command_line, time_rounds


def main() -> None:
    job = job_of_command_line()
    values, draws = job.values, job.arrays["draws"]
    features, labels = dense_rows(job)
    step_size, batch_size = values["step_size"], values["batch_size"]

    def trained(rounds: int) -> np.ndarray:
        x = np.zeros(features.shape[1])
        for picked in draws[:rounds]:  # (clients, steps, batch)
            a, b = features[picked], labels[picked]
            y = np.tile(x, (len(picked), 1))
            for step in range(picked.shape[1]):
                residual = (a[:, step] @ y[:, :, None])[..., 0] - b[:, step]
                slope = residual / (1 + 0.5 * residual * residual) / batch_size
                y -= step_size * (slope[:, None, :] @ a[:, step])[:, 0]
            x = y.mean(0)
        return x

    time_rounds(job, trained, warm_up=10)


if __name__ == "__main__":
    main()
