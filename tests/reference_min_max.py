"""Float64 reference of the federated min–max methods for AUC, written from the texts alone.

Sources: Algorithm 1 and eq. (1)–(6) of the FMGDA paper, with erratum FM-4, and section C of the
baseline specifications. Loops run over clients and steps as they are printed; nothing is shared
with the package, so that an agreement of the two is evidence.

Every method is called as ``method(gradient, theta0, w0, clients, rounds, ...)`` and returns the
list of (theta_bar, w_bar) after each communication round; index 0 is the start.
``gradient(i, theta, w, k)`` is client i's (theta gradient, w gradient) on the minibatch that it
draws at global step k; the same (i, k) is always the same minibatch. Steps are counted from 0 over
the whole run, through rounds and stages; k = -1 is the batch of an initial estimator.
"""

import numpy as np


class TwoLayerNet:
    """h(m; x) = sigmoid(v·tanh(W x + c) + e), with m = (W row by row, c, v, e)."""

    def __init__(self, inputs, hidden, bounded=True):
        self.inputs = inputs
        self.hidden = hidden
        self.bounded = bounded
        self.size = hidden * inputs + hidden + hidden + 1

    def split(self, m):
        n = self.hidden * self.inputs
        W = m[:n].reshape(self.hidden, self.inputs)
        c = m[n : n + self.hidden]
        v = m[n + self.hidden : n + 2 * self.hidden]
        return W, c, v, m[-1]

    def score(self, m, x):
        """The score of one sample."""
        W, c, v, e = self.split(m)
        z = v @ np.tanh(W @ x + c) + e
        return 1.0 / (1.0 + np.exp(-z)) if self.bounded else z

    def scores(self, m, x):
        return np.array([self.score(m, row) for row in x])

    def gradient(self, m, x, slopes):
        """Gradient in m of any phi(h_1, ..., h_n), from slopes[j] = d phi / d h_j."""
        W, c, v, _ = self.split(m)
        dW, dc, dv, de = np.zeros_like(W), np.zeros_like(c), np.zeros_like(v), 0.0
        for row, slope in zip(x, slopes, strict=True):
            t = np.tanh(W @ row + c)
            h = self.score(m, row)
            dz = slope * h * (1.0 - h) if self.bounded else slope
            ds = dz * v * (1.0 - t**2)  # at the argument of tanh
            dW += np.outer(ds, row)
            dc += ds
            dv += dz * t
            de += dz
        return np.concatenate([dW.ravel(), dc, dv, [de]])


# --- The objective, eq. (4) -----------------------------------------------------------------------


def auc_value_of_scores(scores, a, b, w, y, p):
    """Mean of eq. (4) over a batch with given scores; labels are -1 and +1.

    p is the positive rate of the whole problem, not of the batch or the client.
    """
    total = 0.0
    for h, label in zip(scores, y, strict=True):
        if label == 1:
            total += (1 - p) * (h - a) ** 2 - 2 * (1 + w) * (1 - p) * h
        elif label == -1:
            total += p * (h - b) ** 2 + 2 * (1 + w) * p * h
        else:
            raise ValueError(f"a label is -1 or +1, not {label}")
        total -= p * (1 - p) * w**2
    return total / len(y)


def auc_value(m, a, b, w, x, y, p, net):
    return auc_value_of_scores(net.scores(m, x), a, b, w, y, p)


def auc_gradients(m, a, b, w, x, y, p, net):
    """Gradients of auc_value: flat in theta = (m, a, b), and the scalar in w."""
    n = len(y)
    slopes, da, db, dw = np.zeros(n), 0.0, 0.0, 0.0
    for j, (h, label) in enumerate(zip(net.scores(m, x), y, strict=True)):
        if label == 1:
            slopes[j] = (2 * (1 - p) * (h - a) - 2 * (1 + w) * (1 - p)) / n
            da += -2 * (1 - p) * (h - a) / n
            dw += -2 * (1 - p) * h / n
        elif label == -1:
            slopes[j] = (2 * p * (h - b) + 2 * (1 + w) * p) / n
            db += -2 * p * (h - b) / n
            dw += 2 * p * h / n
        else:
            raise ValueError(f"a label is -1 or +1, not {label}")
        dw -= 2 * p * (1 - p) * w / n
    return np.concatenate([net.gradient(m, x, slopes), [da, db]]), dw


# --- Closed forms: facts of section C -------------------------------------------------------------


def best_a(scores, y):
    """a* = E[h|+], for any p and any w."""
    return np.mean([h for h, label in zip(scores, y, strict=True) if label == 1])


def best_b(scores, y):
    """b* = E[h|-], for any p and any w."""
    return np.mean([h for h, label in zip(scores, y, strict=True) if label == -1])


def best_w(scores, y):
    """w* = b* - a*. Only where the samples have the positive rate p of the objective."""
    return best_b(scores, y) - best_a(scores, y)


def pairwise_squared_loss(scores, y):
    """P(m) of eq. (2): mean of (1 - h_1 + h_2)² over all pairs (positive, negative)."""
    total, pairs = 0.0, 0
    for h1, y1 in zip(scores, y, strict=True):
        for h2, y2 in zip(scores, y, strict=True):
            if y1 == 1 and y2 == -1:
                total += (1 - h1 + h2) ** 2
                pairs += 1
    return total / pairs


# --- The methods ----------------------------------------------------------------------------------


def mean(values):
    """Plain average over clients: uniform, as in eq. (5), whatever the local sizes."""
    return sum(values) / len(values)


def corollary_1(t, constant):
    """η_t/η_0 of Corollary 1: η_t = h̄/(e_t + t)^{1/3}, e_t = max(3/2, constant − t)."""
    at_t, at_0 = (max(1.5, constant - s) + s for s in (t, 0))
    return (at_0 / at_t) ** (1 / 3)


def fmgda(
    gradient, theta0, w0, clients, rounds,
    *, primal_step, dual_step, alpha, beta, q, constant=None,
):  # fmt: skip
    """Algorithm 1; primal_step = ĉη_0 and dual_step = cη_0, and alpha and beta those of t = 0.

    constant: 1728 L³q³h̄³ of Corollary 1, whose α_t and β_t are proportional to η_t²; None leaves
    all four as they are.

    Draws: B_0, of u_1 and v_1, is step index -1; B_t, of iteration t = 1, 2, ..., is step index
    t - 1, used at both points of u_{t+1}. A round is q iterations; its last one synchronises and
    then still draws B_t and updates the estimators, at the new common point.

    FM-4: at a synchronisation the client's own previous point (theta_{t-1,i}, w_{t-1,i}) stays
    un-averaged in the correction, and the clients' loop is closed before averages are taken.
    """
    theta = [theta0 for i in range(clients)]
    w = [w0 for i in range(clients)]
    u, v = [None] * clients, [None] * clients
    for i in range(clients):
        u[i], v[i] = gradient(i, theta[i], w[i], -1)
    trace = [(theta0, w0)]
    for t in range(1, rounds * q + 1):
        theta_old, w_old = list(theta), list(w)
        eta = 1.0 if constant is None else corollary_1(t, constant)
        if t % q == 0:
            u_bar, v_bar = mean(u), mean(v)
            u, v = [u_bar] * clients, [v_bar] * clients
            theta_bar = mean([theta_old[i] - eta * primal_step * u_bar for i in range(clients)])
            w_bar = mean([w_old[i] + eta * dual_step * v_bar for i in range(clients)])
            theta, w = [theta_bar] * clients, [w_bar] * clients
            trace.append((theta_bar, w_bar))
        else:
            for i in range(clients):
                theta[i] = theta_old[i] - eta * primal_step * u[i]
                w[i] = w_old[i] + eta * dual_step * v[i]
        for i in range(clients):
            new_u, new_v = gradient(i, theta[i], w[i], t - 1)
            old_u, old_v = gradient(i, theta_old[i], w_old[i], t - 1)
            u[i] = new_u + (1 - alpha * eta**2) * (u[i] - old_u)
            v[i] = new_v + (1 - beta * eta**2) * (v[i] - old_v)
    return trace


def local_sgda(gradient, theta0, w0, clients, rounds, *, primal_step, dual_step, q):
    """C.3: simultaneous steps on one batch, averages after every q of them."""
    theta = [theta0 for i in range(clients)]
    w = [w0 for i in range(clients)]
    trace = [(theta0, w0)]
    for t in range(rounds * q):
        for i in range(clients):
            g_theta, g_w = gradient(i, theta[i], w[i], t)
            theta[i] = theta[i] - primal_step * g_theta
            w[i] = w[i] + dual_step * g_w
        if (t + 1) % q == 0:
            theta, w = [mean(theta)] * clients, [mean(w)] * clients
            trace.append((theta[0], w[0]))
    return trace


def momentum_local_sgda(gradient, theta0, w0, clients, rounds, *, primal_step, dual_step, rho, q):
    """C.4 with its [X] reading: rho = βα is the weight of the new gradient, αη is one step size.

    Draws: B_0, of the initial d, is step index -1; the batch of step t = 0, 1, ... is index t and
    is drawn after the move, at the new point. As printed, the last d of a round is computed at the
    client's own point *before* theta, w and d are averaged. So for two clients or more rho = 1 is
    not local SGDA, as section C has it, but local SGDA whose averages come one step later.
    The initial d is not averaged.
    """
    theta = [theta0 for i in range(clients)]
    w = [w0 for i in range(clients)]
    d_theta, d_w = [None] * clients, [None] * clients
    for i in range(clients):
        d_theta[i], d_w[i] = gradient(i, theta[i], w[i], -1)
    trace = [(theta0, w0)]
    for t in range(rounds * q):
        for i in range(clients):
            theta[i] = theta[i] - primal_step * d_theta[i]
            w[i] = w[i] + dual_step * d_w[i]
            g_theta, g_w = gradient(i, theta[i], w[i], t)
            d_theta[i] = (1 - rho) * d_theta[i] + rho * g_theta
            d_w[i] = (1 - rho) * d_w[i] + rho * g_w
        if (t + 1) % q == 0:
            theta, w = [mean(theta)] * clients, [mean(w)] * clients
            d_theta, d_w = [mean(d_theta)] * clients, [mean(d_w)] * clients
            trace.append((theta[0], w[0]))
    return trace


def proximal(theta, direction, theta_ref, step, prox, implicit):
    """A step of C.1: with its pull at the old point, or the proximal form with γ = 1/prox."""
    if not implicit:
        return theta - step * (direction + prox * (theta - theta_ref))
    gamma = 1 / prox
    return (gamma * theta + step * theta_ref - gamma * step * direction) / (gamma + step)


def stage_list(rounds, stages):
    """The stages (rounds, step factor); None is one stage. They have to fill the rounds."""
    stages = [(rounds, 1.0)] if stages is None else stages
    if sum(length for length, _ in stages) != rounds:
        raise ValueError(f"the stages {stages} do not add up to {rounds} rounds")
    return stages


def coda(
    gradient,
    theta0,
    w0,
    clients,
    rounds,
    *,
    primal_step,
    dual_step,
    q,
    stages=None,
    prox=0.0,
    dual_restart=False,
    restart=None,
    stage_output_in_trace=False,
    implicit=False,
):
    """C.1; CODA+ is dual_restart=False. prox is 1/γ, pulling all of theta = (m, a, b).

    stages: (rounds, factor), the factor multiplying both given steps in that stage: 1, 1/3, 1/9
    for the rule of the text (which knows one η; separate steps are its advice for FMGDA). q is
    given, and constant, where the text lets I_s grow as the step falls.

    restart(i, theta) returns client i's (mean score of negatives, mean score of positives), on
    samples that it draws for this; it has no step index.

    The pseudo-code averages theta over t = 1..T_s: here all points *after* a step, so neither the
    start of the stage nor a weight for it. (Before or after a synchronisation is the same, as the
    clients are averaged too.)

    Which w starts the next stage: with the dual restart, mean_i (h⁻_i - h⁺_i) at the averaged
    theta, as printed. Without it the text has "simply the averaged dual iterate"; read here like
    the theta that it goes with, over clients and over the same t. "The last synchronised w" would
    be a second reading, less supported: that is not an average *iterate*.

    What is recorded at the end of a stage is not said either. By default the synchronised average
    of that round, like everywhere else: only so "one stage and 1/γ = 0 is local SGDA" holds to
    the last round. stage_output_in_trace=True records the stage's output in its place.
    """
    trace = [(theta0, w0)]
    theta_stage, w_stage = theta0, w0
    t = 0
    for length, factor in stage_list(rounds, stages):
        theta_ref = theta_stage
        theta = [theta_stage for i in range(clients)]
        w = [w_stage for i in range(clients)]
        theta_sum, w_sum = np.zeros_like(theta0), 0.0
        for _ in range(length):
            for _ in range(q):
                for i in range(clients):
                    g_theta, g_w = gradient(i, theta[i], w[i], t)
                    step = factor * primal_step
                    theta[i] = proximal(theta[i], g_theta, theta_ref, step, prox, implicit)
                    w[i] = w[i] + factor * dual_step * g_w
                theta_sum = theta_sum + mean(theta)
                w_sum = w_sum + mean(w)
                t += 1
            theta, w = [mean(theta)] * clients, [mean(w)] * clients
            trace.append((theta[0], w[0]))
        theta_stage, w_stage = theta_sum / (length * q), w_sum / (length * q)
        if dual_restart:
            gaps = []
            for i in range(clients):
                negative, positive = restart(i, theta_stage)
                gaps.append(negative - positive)
            w_stage = mean(gaps)
        if stage_output_in_trace:
            trace[-1] = (theta_stage, w_stage)
    return trace


def codasca(
    gradient,
    theta0,
    w0,
    clients,
    rounds,
    *,
    primal_step,
    dual_step,
    q,
    stages=None,
    prox=0.0,
    global_step=1.0,
    implicit=False,
):
    """C.2 as in its box, not as in the official code; stages as for coda, prox = 1/γ.

    The box has one η_l; with separate steps each variate is divided by the step of its own
    variable, which keeps it what it is said to be, the average local direction of the round.
    That direction includes the pull of prox, as G does in the box.

    Between stages the box keeps the server's model (no average over t as in CODA) and sets
    theta_ref to it and all variates to zero.
    """
    trace = [(theta0, w0)]
    theta_bar, w_bar = theta0, w0
    t = 0
    for length, factor in stage_list(rounds, stages):
        theta_ref = theta_bar
        step_theta, step_w = factor * primal_step, factor * dual_step
        c_theta, c_w = np.zeros_like(theta0), 0.0
        c_theta_i, c_w_i = [np.zeros_like(theta0)] * clients, [0.0] * clients
        for _ in range(length):
            theta = [theta_bar for i in range(clients)]
            w = [w_bar for i in range(clients)]
            for i in range(clients):
                for k in range(q):
                    g_theta, g_w = gradient(i, theta[i], w[i], t + k)
                    along = g_theta - c_theta_i[i] + c_theta
                    theta[i] = proximal(theta[i], along, theta_ref, step_theta, prox, implicit)
                    w[i] = w[i] + step_w * (g_w - c_w_i[i] + c_w)
                moved = (theta_bar - theta[i]) / (q * step_theta)
                c_theta_i[i] = c_theta_i[i] - c_theta + moved
                c_w_i[i] = c_w_i[i] - c_w + (w[i] - w_bar) / (q * step_w)
            t += q
            # The server's variates change only after all clients have used the old ones.
            c_theta, c_w = mean(c_theta_i), mean(c_w_i)
            theta_bar = theta_bar + global_step * (mean(theta) - theta_bar)
            w_bar = w_bar + global_step * (mean(w) - w_bar)
            trace.append((theta_bar, w_bar))
    return trace
