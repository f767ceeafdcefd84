"""FedAvg by FedJAX's own federated averaging, its jitted loop over clients, float64."""

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from dense_data import dense_rows
from fedjax.algorithms import fed_avg
from measuring import job_of_command_line, time_rounds

jax.config.update("jax_enable_x64", True)


def main() -> None:
    job = job_of_command_line()
    values, draws = job.values, job.arrays["draws"]
    features, labels = dense_rows(job)

    def loss(params, batch, rng):
        residual = batch["x"] @ params["x"] - batch["y"]
        return jnp.mean(jnp.log1p(0.5 * residual**2))

    algorithm = fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(values["step_size"]),
        fedjax.optimizers.sgd(1.0),
        # A client's data set is what was drawn for it, in that order.
        fedjax.ShuffleRepeatBatchHParams(values["batch_size"], num_epochs=1, skip_shuffle=True),
    )
    key = jax.random.PRNGKey(0)

    def trained(rounds: int) -> np.ndarray:
        state = algorithm.init({"x": jnp.zeros(features.shape[1])})
        for picked in draws[:rounds]:
            clients = []
            for number, rows in enumerate(picked.reshape(len(picked), -1)):
                samples = {"x": features[rows], "y": labels[rows]}
                clients.append((number, fedjax.ClientDataset(samples), key))
            state, _ = algorithm.apply(state, clients)
        return np.asarray(state.params["x"])

    time_rounds(job, trained, warm_up=3)


if __name__ == "__main__":
    main()
