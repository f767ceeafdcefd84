"""FedAvg around a server whose clients are processes that sleep as drawn, beside simulated time.

Each client is a process with its own rows. It sleeps for the time that a declared network draws for
its trip, and sends nothing if its answer is lost. The server waits for answers, or until the
deadline. Wall time, the clients that answered and the objective should be those of the simulation.

    python benchmarks/clocks.py [rounds]
"""

import sys
import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection, wait

import numpy as np

import fedatlas
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.parts import Load
from fedatlas.federations.times import NANOSECONDS, ClientTimes
from fedatlas.schema.network_model import StarNetworkModel

CLIENTS, EACH, FEATURES, CHOSEN, STEPS, STEP_SIZE, WEIGHT = 12, 20, 10, 4, 5, 0.3, 1e-2
DEADLINE = 0.2  # seconds
NETWORK = {
    "seconds_per_gradient": 5e-4, "compute": {"kind": "lognormal", "spread": 0.4}, "spread": 0.5,
    "latency": 0.02, "bandwidth_up": 4000.0, "loss": {"probability": 0.1, "burst": 2},
    "deadline": DEADLINE,
}  # fmt: skip


def gradient(x: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """∇f_i, of logistic regression with an l2 term."""
    slopes = -labels / (1 + np.exp(labels * (rows @ x)))
    found: np.ndarray = slopes @ rows / len(rows) + WEIGHT * x
    return found


def client(link: Connection, rows: np.ndarray, labels: np.ndarray) -> None:
    """Answer what is asked last, after as long as drawn."""
    asked = link.recv()
    while asked is not None:
        began, (number, x, seconds, lost) = time.perf_counter(), asked
        y = x
        for _ in range(STEPS):
            y = y - STEP_SIZE * gradient(y, rows, labels)
        left = began + seconds - time.perf_counter()
        if not link.poll(max(left, 0.0)) and not lost:
            link.send((number, y - x))
        asked = link.recv()


def played(
    rows: np.ndarray, labels: np.ndarray, rounds: int
) -> tuple[list[float], list[float], list[int]]:
    """Seconds since the beginning, and the objective, after each round; how many answered."""
    times = ClientTimes(StarNetworkModel.model_validate(NETWORK), CLIENTS, 0)
    load = Load(np.full(CLIENTS, EACH * STEPS), 8.0 * FEATURES, 8.0 * FEATURES)
    links: list[Connection] = []
    processes = []
    for own in np.split(np.arange(len(rows)), CLIENTS):
        ours, theirs = Pipe()
        process = Process(target=client, args=(theirs, rows[own], labels[own]), daemon=True)
        process.start()
        links.append(ours)
        processes.append(process)
    x, random, seconds, objective, answered = np.zeros(FEATURES), RoundRandom(0), [], [], []
    time.sleep(1)  # until all have begun
    began = time.perf_counter()
    for number in range(rounds):
        chosen = random.at(number).sample(CLIENTS, CHOSEN)
        trips = np.full(CHOSEN, number)
        took = times.durations(chosen, trips, load) / NANOSECONDS
        until = time.perf_counter() + DEADLINE
        for i, each, lost in zip(chosen, took, times.lost(chosen, trips), strict=True):
            links[i].send((number, x, each, lost))
        moved: list[np.ndarray] = []
        while len(moved) < CHOSEN and (left := until - time.perf_counter()) > 0:
            for link in wait([links[i] for i in chosen], left):
                assert isinstance(link, Connection)
                of, delta = link.recv()
                moved += [delta] if of == number else []
        x = x + np.mean(moved, axis=0) if moved else x
        seconds.append(time.perf_counter() - began)
        losses = np.log1p(np.exp(-labels * (rows @ x))).mean()
        objective.append(float(losses + WEIGHT / 2 * x @ x))
        answered.append(len(moved))
    for link, process in zip(links, processes, strict=True):
        link.send(None)
        process.join()
    return seconds, objective, answered


def main(rounds: int) -> None:
    """Print both clocks."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(CLIENTS * EACH, FEATURES))
    labels = np.where(rows @ random.normal(size=FEATURES) > 0, 1.0, -1.0)
    trace = fedatlas.train(
        "fedavg", (rows, labels), rounds=rounds, network=NETWORK,
        partition={"kind": "horizontal", "clients": CLIENTS},
        objective={"name": "logistic_l2", "weight": WEIGHT},
        clients_per_round=CHOSEN, local_steps=STEPS, local_step_size=STEP_SIZE,
    )  # fmt: skip
    seconds, objective, answered = played(rows, labels, rounds)
    simulated = trace.simulated_time.to_numpy()[0, 1:]
    in_rounds = [np.diff(each, prepend=0.0) for each in (seconds, simulated)]
    apart = np.abs(in_rounds[0] / in_rounds[1] - 1)
    print(f"{rounds} rounds: {seconds[-1]:.3f} s real, {simulated[-1]:.3f} s simulated")
    print(f"real over simulated: {seconds[-1] / simulated[-1]:.3f}")
    print(f"single rounds apart: median {np.median(apart):.1%}, most {apart.max():.1%}")
    print(f"answers: {sum(answered)} of {CHOSEN * rounds}; rounds without one late: "
          f"{sum(each == CHOSEN for each in answered)}")  # fmt: skip
    off = np.abs(np.array(objective) - trace.objective.to_numpy()[0, 1:]).max()
    print(f"objectives differ by {off:.1e} at most")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
