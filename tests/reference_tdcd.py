"""Float64 reference of TDCD for linear silos, written from the paper alone.

Source: Algorithm 1, eq. (2)-(5) and Remarks 2-4 of the TDCD paper, with errata TD-1 and TD-2. Loops
run over silos, clients and samples as they are printed; nothing is shared with the package, so that
an agreement of the two is evidence.

Silo j's model is Φ_j(x) = W_j x + b_j, with theta_j = (W_j of (E, D_j), b_j of (E,)); the loss is a
function of the sum of the silos' embeddings, of E numbers. ``data[j][p]`` is silo j's part of
sample p, ``owners[j][k]`` the samples of client k of silo j, ``theta[j]`` the start, ``batches[r]``
the sample numbers of the minibatch ζ of communication round r. Every method returns the list of
[theta_1, ..., theta_N] after each communication round; index 0 is the start.
"""

from collections import Counter

import numpy as np

# --- The loss of one sample, from the sum of the embeddings ---------------------------------------


class CrossEntropy:
    """-log softmax(s)[y], classes y = 0, ..., E - 1."""

    @staticmethod
    def slope(s, y):
        exponentials = np.exp(s - np.max(s))
        slope = exponentials / np.sum(exponentials)
        slope[y] -= 1.0
        return slope


class Logistic:
    """log(1 + exp(-y s)) of one output s, labels y of -1 and +1."""

    @staticmethod
    def slope(s, y):
        return np.array([-y / (1.0 + np.exp(y * s[0]))])


# --- The model ------------------------------------------------------------------------------------


def embedding(theta_j, x):
    """Φ_j of one sample."""
    W, b = theta_j
    return np.array([W[e] @ x + b[e] for e in range(len(b))])


def summed(theta, data, p):
    """The sum of the silos' embeddings of sample p, the argument of the loss in eq. (3)."""
    return sum(embedding(theta[j], data[j][p]) for j in range(len(data)))


def partial_gradient(theta_j, others, x_j, labels, samples, loss):
    """g of eq. (4): the mean over ``samples`` of the gradient in theta_j.

    others[p] is what the other silos' embeddings of sample p add up to, held fixed.
    """
    W, b = theta_j
    dW, db = np.zeros_like(W), np.zeros_like(b)
    for p in samples:
        slope = loss.slope(others[p] + embedding(theta_j, x_j[p]), labels[p])
        dW += np.outer(slope, x_j[p]) / len(samples)
        db += slope / len(samples)
    return dW, db


def stepped(theta_j, gradient, step):
    return theta_j[0] - step * gradient[0], theta_j[1] - step * gradient[1]


def mean(thetas):
    """Plain average over clients, whatever the number of their samples (line 32)."""
    return sum(W for W, _ in thetas) / len(thetas), sum(b for _, b in thetas) / len(thetas)


# --- The methods ----------------------------------------------------------------------------------


def tdcd(data, labels, owners, theta, batches, *, step, local_steps, loss):
    """Algorithm 1.

    Iterations t = 0, 1, ...; ζ and the exchange are of those with t mod Q = 0, the average is of
    those with (t + 1) mod Q = 0 (TD-1: of the weights *after* the step of that iteration). Where
    eq. (4) would divide by zero, for a client with no sample in ζ, it takes no step; its weights
    enter the average.
    """
    silos = range(len(data))
    theta = list(theta)
    trace = [list(theta)]
    for t in range(len(batches) * local_steps):
        if t % local_steps == 0:
            batch = [int(p) for p in batches[t // local_steps]]
            held = [[[p for p in batch if p in client] for client in owners[j]] for j in silos]
            local = [[theta[j] for _ in owners[j]] for j in silos]  # lines 11, 12
            formed = []
            for j in silos:  # lines 13, 17: the union over the clients
                embeddings = {}
                for k, samples in enumerate(held[j]):
                    for p in samples:
                        embeddings[p] = embedding(local[j][k], data[j][p])
                formed.append(embeddings)
            width = len(theta[0][1])
            others = []
            for j in silos:  # line 19, with TD-2's index
                sums = {p: np.zeros(width) for p in batch}
                for i in silos:
                    for p in batch:
                        if i != j:
                            sums[p] = sums[p] + formed[i][p]
                others.append(sums)
        for j in silos:  # line 27
            for k, samples in enumerate(held[j]):
                if samples:
                    gradient = partial_gradient(
                        local[j][k], others[j], data[j], labels, samples, loss
                    )
                    local[j][k] = stepped(local[j][k], gradient, step)
        if (t + 1) % local_steps == 0:  # line 32
            theta = [mean(local[j]) for j in silos]
            trace.append(list(theta))
    return trace


def local_sgd(x, labels, clients, theta, batches, *, step, local_steps, loss):
    """One silo only: local SGD with an average after every ``local_steps`` steps (Remark 3).

    ``clients[k]`` are client k's samples; no step without a sample in the minibatch. Here theta is
    one pair (W, b), and so is every entry of the list returned.
    """
    trace = [theta]
    for batch in batches:
        results = []
        for samples in clients:
            own = [p for p in batch if p in samples]
            W, b = theta
            for _ in range(local_steps if own else 0):
                slopes = [loss.slope(W @ x[p] + b, labels[p]) for p in own]
                dW = sum(np.outer(s, x[p]) for s, p in zip(slopes, own, strict=True)) / len(own)
                db = sum(slopes) / len(own)
                W, b = W - step * dW, b - step * db
            results.append((W, b))
        theta = mean(results)
        trace.append(theta)
    return trace


def single_tier(data, labels, theta, batches, *, step, local_steps, loss):
    """One client per silo (Remark 4): parties that step on their block beside the others' share.

    As in parallel coordinate descent with local steps: at the start of a round everyone sees the
    sums of all, and from then on replaces its own share of them only.
    """
    trace = [list(theta)]
    for batch in batches:
        sums = np.array([summed(theta, data, p) for p in batch])
        moved = []
        for j, (W, b) in enumerate(theta):
            x = np.array([data[j][p] for p in batch])
            fixed = sums - (x @ W.T + b)
            for _ in range(local_steps):
                scores = fixed + x @ W.T + b
                slopes = np.array(
                    [loss.slope(s, labels[p]) for s, p in zip(scores, batch, strict=True)]
                )
                W, b = W - step * slopes.T @ x / len(batch), b - step * slopes.mean(axis=0)
            moved.append((W, b))
        theta = moved
        trace.append(list(theta))
    return trace


# --- What a round sends, message by message -------------------------------------------------------


class Ledger:
    """Bytes by kind of link, messages, and sequential half trips (one way) on either kind.

    In an exchange all that is to be sent travels at the same time: it has one latency, and lasts
    as long as the node with most bytes, sent and received, needs for them.
    """

    def __init__(self):
        self.up = self.down = self.between_hubs = self.messages = 0
        self.client_halves = self.hub_halves = 0
        self.exchanges = self.busiest = 0
        self._of_nodes = {}

    def add(self, direction, weight, *ends):
        setattr(self, direction, getattr(self, direction) + weight)
        self.messages += 1
        for node in ends:
            self._of_nodes[node] = self._of_nodes.get(node, 0) + weight

    def end_exchange(self):
        self.exchanges += 1
        self.busiest += max(self._of_nodes.values())
        self._of_nodes = {}

    def counts(self):
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


def traffic(owners, batch, sent, returned, *, width, local_steps, item, labels="every_client"):
    """The ledger of one round of Algorithm 1, with Remark 2 where labels are in silo 0 only.

    sent[j]: the numbers that make up what hub j sends to a client beside the sample ids of ζ, of 8
    bytes each; returned[j][k]: what comes back at the end. width: E; item: bytes of a number.

    Remark 2: at every local step each client of the other silos sends its embeddings to the
    clients with the labels, through both hubs, and gets as many slopes back. What those clients
    need at the start of a round is what they are first asked with.
    """
    silos = range(len(owners))
    held = [[sum(1 for p in batch if p in own) for own in owners[j]] for j in silos]
    row = width * item
    ledger = Ledger()

    def from_clients(j, of_silos=1):
        for k, rows in enumerate(held[j]):
            if rows:
                ledger.add("up", rows * row * of_silos, ("client", j, k), ("hub", j))

    def to_clients(j, of_silos=1):
        for k, rows in enumerate(held[j]):
            if rows:
                ledger.add("down", rows * row * of_silos, ("hub", j), ("client", j, k))

    def between_hubs(j, i):
        ledger.add("between_hubs", len(batch) * row, ("hub", j), ("hub", i))

    for j in silos:  # line 11
        for k in range(len(owners[j])):
            ledger.add("down", sent[j] * item + 8 * len(batch), ("hub", j), ("client", j, k))
    ledger.end_exchange()
    ledger.client_halves += 1
    if labels == "every_client":
        for j in silos:  # line 13
            from_clients(j)
        ledger.end_exchange()
        ledger.client_halves += 1
        for j in silos:  # line 18; both ways at once, which is a trip
            for i in silos:
                if i != j:
                    between_hubs(j, i)
        if len(owners) > 1:
            ledger.end_exchange()
            ledger.hub_halves += 2
        for j in silos:  # line 22
            to_clients(j)
        ledger.end_exchange()
        ledger.client_halves += 1
    elif len(owners) > 1:
        for _ in range(local_steps):
            for j in silos[1:]:
                from_clients(j)
            ledger.end_exchange()
            for j in silos[1:]:
                between_hubs(j, 0)
            ledger.end_exchange()
            to_clients(0, len(owners) - 1)
            ledger.end_exchange()
            from_clients(0, len(owners) - 1)  # the slopes, the same way back
            ledger.end_exchange()
            for j in silos[1:]:
                between_hubs(0, j)
            ledger.end_exchange()
            for j in silos[1:]:
                to_clients(j)
            ledger.end_exchange()
            ledger.client_halves += 4
            ledger.hub_halves += 2
    for j in silos:  # line 32
        for k in range(len(owners[j])):
            ledger.add("up", returned[j][k] * item, ("client", j, k), ("hub", j))
    ledger.end_exchange()
    ledger.client_halves += 1
    return ledger


def slowest_share(owners, batch, parameters):
    """Gradients of the whole model that the slowest client's local step amounts to.

    A client takes one of its silo's block for each of its samples in ζ; parameters[j] are as many
    as the numbers of that block, of all silos' together the model's.
    """
    slowest = 0.0
    for j, clients in enumerate(owners):
        for own in clients:
            samples = sum(1 for p in batch if p in own)
            slowest = max(slowest, samples * parameters[j] / sum(parameters))
    return slowest


def counters(owners, batches, blocks, *, local_steps, **declared):
    """What a trace counts of a round for each minibatch, in float64.

    blocks: parameters of each silo. declared: see traffic.
    """
    totals, in_turn = Counter(), 0.0
    for samples in batches:
        own = samples.tolist()
        ledger = traffic(owners, own, local_steps=local_steps, item=8, **declared)
        totals.update(ledger.counts())
        in_turn += local_steps * slowest_share(owners, own, blocks)
    assert totals["client_halves"] % 2 == totals["hub_halves"] % 2 == 0
    return {
        "gradient_evaluations": local_steps * sum(map(len, batches)),
        "iteration": len(batches) * local_steps,
        "bytes_down": totals["down"],
        "bytes_up": totals["up"],
        "bytes_sent": totals["between_hubs"],
        "messages": totals["messages"],
        "hub_client_trips": totals["client_halves"] // 2,
        "hub_hub_trips": totals["hub_halves"] // 2,
        "sequential_messages": totals["exchanges"],
        "sequential_bytes": totals["busiest"],
        "sequential_gradients": in_turn,
    }
