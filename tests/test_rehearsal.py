"""What rehearsals find: nothing in correct methods, and each fault of those that are made wrong.

FedBuff (Nguyen et al. 2022, Algorithm 1) is asynchronous: who sends did not receive the latest
broadcast. EF21 (Richtárik et al. 2021, Algorithm 2) broadcasts and gathers before round 0. In
Scaffnew (Mishchenko et al. 2022, Algorithm 1) clients hold x⁰ from the start, and send in some
rounds only. In MARINA (Gorbunov et al. 2021, Algorithm 1) clients move their own copy of the model.
"""

import itertools
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from experiment_files import config_folder
from fedatlas import algorithms, cli
from fedatlas.algorithms import algorithm_class, algorithm_names
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import is_counted
from fedatlas.federations.vertical.problem import UpdateRule
from fedatlas.plan.build import build_plan
from fedatlas.schema.objectives import LinearObjective
from fedatlas.training import rehearsal
from fedatlas.training.loop import train
from fedatlas.training.rehearsal import rehearse, rehearse_once, rehearse_without_data
from outside_project import open_project
from resuming import killed_and_resumed, without_times
from small_federations import (
    CLIENTS,
    LINEAR,
    LOCAL,
    PARTIES,
    SMALL,
    small,
    small_shards,
    specification,
)

HERE = Path(algorithms.__file__).parent
KEPT = "does what a method promises"

pytestmark = pytest.mark.usefixtures("one_thread")

HEAD = """
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from fedatlas.federations.horizontal import HorizontalAlgorithm, LocalStepsAlgorithm
"""

FEDBUFF = '''
@dataclass(frozen=True)
class State:
    x: Any
    active: Any  # (M,) clients that compute
    held: Any  # (M, d), the model that each of them was sent

class FedBuff(LocalStepsAlgorithm):
    """K = clients_per_round, the size of the buffer; M = concurrency."""
    title: ClassVar[str] = "FedBuff"
    source: ClassVar[str] = "Nguyen et al. 2022, Algorithm 1"
    asynchronous: ClassVar[bool] = True
    concurrency: PositiveInt

    def start(self, problem, network, x0):
        active = np.arange(self.concurrency)
        (x,) = network.broadcast(x0, to=active)
        return State(x0, active, problem.zeros(len(active), problem.dimension) + x)

    def round(self, state, problem, network, random):
        places = random.sample(self.concurrency, self.clients_per_round)
        y, clients = state.held[places], state.active[places]
        batch = problem.minibatches(random, clients, self.batch_size, self.local_steps)
        moved = y - problem.local_sgd(y, batch, self.local_step_size)
        (delta,) = network.gather(moved)
        x = state.x - self.server_step_size * delta.mean(0)
        idle = np.setdiff1d(np.arange(problem.clients), state.active)
        new = idle[random.sample(len(idle), len(places))]
        (sent,) = network.broadcast(x, to=new)
        active, held = state.active.copy(), state.held.copy()
        active[places], held[places] = new, sent
        return State(x, active, held)
'''

EF21 = """
@dataclass(frozen=True)
class State:
    x: Any
    g: Any  # the server's
    own: Any  # (N, d), the clients'

class Ef21(HorizontalAlgorithm):
    title: ClassVar[str] = "EF21"
    source: ClassVar[str] = "Richtárik et al. 2021, Algorithm 2, Top-1"
    step_size: PositiveFloat

    effective_step_size = property(lambda self: self.step_size)

    def start(self, problem, network, x0):
        everyone = np.arange(problem.clients)
        (x,) = network.broadcast(x0, to=everyone)
        own = problem.gradient(x, problem.minibatches(None, everyone, None))
        (g,) = network.gather(own)
        return State(x0, g.mean(0), own)

    def round(self, state, problem, network, random):
        everyone = np.arange(problem.clients)
        following = state.x - self.step_size * state.g
        (x,) = network.broadcast(following, to=everyone)
        left = problem.gradient(x, problem.minibatches(random, everyone, None)) - state.own
        place = abs(left).argmax(1)[:, None]
        sent = np.take_along_axis(left, place, 1)
        at, values = network.gather(place.astype(np.int32), sent)
        change = np.zeros_like(left)
        np.put_along_axis(change, at, values, 1)
        own = state.own.copy()
        own[everyone[:, None], place] += sent
        return State(following, state.g + change.mean(0), own)
"""

SCAFFNEW = """
@dataclass(frozen=True)
class State:
    x: Any
    own: Any  # (N, d) x_i
    h: Any  # (N, d)

class Scaffnew(HorizontalAlgorithm):
    title: ClassVar[str] = "Scaffnew"
    source: ClassVar[str] = "Mishchenko et al. 2022, Algorithm 1"
    step_size: PositiveFloat
    probability: PositiveFloat

    effective_step_size = property(lambda self: self.step_size)

    def start(self, problem, network, x0):
        zeros = problem.zeros(problem.clients, problem.dimension)
        return State(x0, zeros + x0, zeros)

    def round(self, state, problem, network, random):
        everyone = np.arange(problem.clients)
        batch = problem.minibatches(random, everyone, 2)
        moved = state.own - self.step_size * (problem.gradient(state.own, batch) - state.h)
        if not random.bernoulli(self.probability):
            return State(state.x, moved, state.h)
        share = self.step_size / self.probability
        (sent,) = network.gather(moved - share * state.h)
        mean = sent.mean(0)
        (x,) = network.broadcast(mean, to=everyone)
        return State(mean, problem.zeros(*moved.shape) + x, state.h + (x - moved) / share)
"""

MARINA = """
@dataclass(frozen=True)
class State:
    x: Any  # the server's and the clients', from x⁰ and the same g
    g: Any

class Marina(HorizontalAlgorithm):
    title: ClassVar[str] = "MARINA"
    source: ClassVar[str] = "Gorbunov et al. 2021, Algorithm 1, without compression"
    step_size: PositiveFloat

    effective_step_size = property(lambda self: self.step_size)

    def start(self, problem, network, x0):
        everyone = np.arange(problem.clients)
        whole = problem.minibatches(None, everyone, None)
        (g,) = network.gather(problem.gradient(x0, whole))
        return State(x0, g.mean(0))

    def round(self, state, problem, network, random):
        everyone = np.arange(problem.clients)
        (g,) = network.broadcast(state.g, to=everyone)
        x = state.x - self.step_size * g
        batch = problem.minibatches(random, everyone, 2)
        (change,) = network.gather(problem.gradient_difference(x, state.x, batch))
        return State(x, state.g + change.mean(0))
"""

LAZY = '''
@dataclass(frozen=True)
class State:
    x: Any
    g: Any
    own: Any  # (N, d), what each client sent last

class Lazy(HorizontalAlgorithm):
    """Clients send what has changed enough: in a round all of them, some or none."""
    title: ClassVar[str] = "LAG-WK"
    source: ClassVar[str] = "Chen et al. 2018, Algorithm 1, with a constant threshold"
    step_size: PositiveFloat

    effective_step_size = property(lambda self: self.step_size)

    def start(self, problem, network, x0):
        return State(x0, 0 * x0, problem.zeros(problem.clients, problem.dimension))

    def round(self, state, problem, network, random):
        everyone = np.arange(problem.clients)
        (x,) = network.broadcast(state.x, to=everyone)
        g = problem.gradient(x, problem.minibatches(random, everyone, None))
        changed = ((g - state.own) ** 2).sum(1) > 1e-4
        (change,) = network.gather((g - state.own)[changed])
        own = np.where(changed[:, None], g, state.own)
        mean = state.g + change.sum(0) / problem.clients
        return State(state.x - self.step_size * mean, mean, own)
'''

ONE_SHOT = '''
@dataclass(frozen=True)
class State:
    k: int
    x: Any
    own: Any

class OneShot(LocalStepsAlgorithm):
    """Clients begin at x⁰, which they know, and send once; nothing is ever sent to them."""
    title: ClassVar[str] = "averaging once"
    source: ClassVar[str] = "Zinkevich et al. 2010, Algorithm 3"

    def start(self, problem, network, x0):
        return State(0, x0, problem.zeros(problem.clients, problem.dimension) + x0)

    def round(self, state, problem, network, random):
        batch = problem.minibatches(random, np.arange(problem.clients), self.batch_size)
        own, x = problem.local_sgd(state.own, batch, self.local_step_size), state.x
        if state.k == 5:
            (sent,) = network.gather(own)
            x = sent.mean(0)
        return State(state.k + 1, x, own)
'''

SOURCES = {
    "buffered": (FEDBUFF, LOCAL | {"clients_per_round": 3, "concurrency": 6}),
    "ef21_begun": (EF21, {"clients_per_round": 12, "step_size": 0.3}),
    "scaffnew_alone": (SCAFFNEW, {"clients_per_round": 12, "step_size": 0.1, "probability": 0.1}),
    "marina_begun": (MARINA, {"clients_per_round": 12, "step_size": 0.1}),
    "one_shot": (ONE_SHOT, LOCAL),
    "lazy": (LAZY, {"clients_per_round": 12, "step_size": 0.1}),
}

# Methods that are here, a little more open to faults.
MORE = "    x: Any\n", "    x: Any\n    more: Any = None\n"
SHIPPED = {
    "wrong_" + name: (HERE / f"{name}.py").read_text(encoding="utf-8").replace(*MORE)
    for name in ("fedavg", "local_sgda", "gaussian_gradient_descent", "vfb2_sgd")
}
OPENING = "import numpy as np\n\nMEMORY = []\n"

# What makes a method cheat, and what is found.
UNSENT = r"what clients send depends on the server's state .*network\.broadcast returns"
UNGATHERED = r"the server's model depends on samples .*network\.gather returns"
MIXED = "a row that a client sends depends on other clients' samples"
UNEQUAL = "two rehearsals under one seed"

SENT = "(x,) = network.broadcast(state.x, to=clients)"
GATHERED = "(delta,) = network.gather(y - x)"
MEAN = "problem.mean(delta, clients)"
RETURNED = "return State(state.x + self.server_step_size * problem.mean(delta, clients))"
AGENTS = "gaussian_gradient_descent"
RULE = "return UpdateRule(self.step_size, synchronous=self.synchronous)"
ROUND = f"{RULE}\n\n    def round(self, state, problem, network, random):\n        "
SUPER = "return super().round(state, problem, network, random)"
FAULTS = [
    ("fedavg", GATHERED, "delta = y - x", "the server is sent nothing: call"),
    ("fedavg", SENT, "x = state.x", UNSENT),
    (
        *("fedavg", "problem.mean(delta, clients)", "problem.mean(delta, clients) * np.nan"),
        "makes the state's x and the model that is measured NaN.* was sent is not NaN",
    ),
    (
        *("fedavg", "gather(y - x)", "gather((y - x) * np.nan)"),
        "the state's x .* NaN.*, and what is given to gather is NaN already: look",
    ),
    (
        *("fedavg", RETURNED, "return State(state.x + delta.mean(0), np.nan * state.x)"),
        "the first round makes the state's more NaN",
    ),
    ("fedavg", MEAN, "problem.mean(y - x, clients)", f"after round 0 {UNGATHERED}"),
    (
        *("fedavg", RETURNED),
        "m = 0 if state.more is None else state.more\n"
        "        return State(state.x + delta.mean(0) + m, (y - x).mean(0))",
        "after round 1 the server's model depends on samples",
    ),
    ("fedavg", "gather(y - x)", "gather(y - state.x)", UNSENT),
    (
        *("fedavg", "gather(y - x)", "gather((y - x).mean(0))"),
        r"network\.gather is given an array of shape \(6,\): give the rows \(clients, …\)",
    ),
    ("fedavg", "gather(y - x)", "gather(y - y.mean(0))", MIXED),
    (
        *("fedavg", GATHERED, f"{GATHERED}; problem.client_gradients(x, batch)"),
        r"uses problem\.client_gradients, which is not counted",
    ),
    (
        *("fedavg", GATHERED, f"{GATHERED}; problem.measure(state.x)"),
        r"uses problem\.measure, which is not counted",
    ),
    (
        *("fedavg", GATHERED, f"{GATHERED}; network._counters.bytes_up = 0"),
        r"uses network\._counters, which is private",
    ),
    (
        *("fedavg", GATHERED, f"{GATHERED}; problem.last = delta"),
        r"sets problem\.last: keep what lasts in the state",
    ),
    ("fedavg", "frozen=True", "frozen=False", "State can be changed: write"),
    (
        *("fedavg", RETURNED, "x0 = state.x; x0 += delta.mean(0); return State(x0)"),
        "round changes the state's x in place: return a new array",
    ),
    (
        *("fedavg", RETURNED, "return State(state.x + delta.mean(0), [1])"),
        "the state's more is a list, which no checkpoint keeps",
    ),
    (
        *("fedavg", RETURNED, "MEMORY.append(delta); return State(state.x + sum(MEMORY).mean(0))"),
        UNEQUAL,
    ),
    ("fedavg", MEAN, f"({MEAN} + np.random.normal(size=6))", UNEQUAL),
    (
        *("local_sgda", "problem.step_done()", "pass"),
        r"no step: call problem\.step_done\(\) after each",
    ),
    (
        *("local_sgda", "theta, w = network.gather(theta, w)", "(w,) = network.gather(w)"),
        "the server's model depends on samples of others",
    ),
    (
        *(AGENTS, "network.states.send(x)", "x"),
        "agents are sent nothing: call network.states.send",
    ),
    (
        *(AGENTS, "in_laplacian @ x_sent", "in_laplacian @ x"),
        r"an agent's model depends on samples of others .*network\.states\.send returns",
    ),
    (
        *(AGENTS, "network.states.in_laplacian @ x_sent", "x - x_sent.mean(0)"),
        "depends on an agent from which no edge leads to it",
    ),
    (
        *(AGENTS, "send(x)", "send(x, bits=0)"),
        "is told that its messages take 0 bits",
    ),
    (
        *("vfb2_sgd", RULE, f"{ROUND}return state"),
        "parties update nothing: call network.dominated_updates",
    ),
    (
        *("vfb2_sgd", RULE),
        f"{ROUND}moved = state._replace(x=state.x + 1)\n"
        "        return super().round(moved, problem, network, random)",
        "given a state whose blocks `x` are not those that the network returned",
    ),
    (
        *("buffered", "y, clients = state.held[places]"),
        *("y, clients = 0 * state.held[places] + state.x", UNSENT),
    ),
    ("buffered", "] = new, sent", "] = new, x", UNSENT),
    ("buffered", "delta.mean(0)", "moved.mean(0)", UNGATHERED),
    ("buffered", "gather(moved)", "gather(moved - moved.mean(0))", MIXED),
    ("buffered", "gather(moved)", "gather(moved.mean(0, keepdims=True))", MIXED),
    ("buffered", "asynchronous: ClassVar[bool] = True", "pass", "that the latest broadcast did"),
    ("buffered", "] = new, sent", "] = new, sent; state.held[0] += 1", "in place"),
    ("ef21_begun", "(x,) = network.broadcast(following, to=everyone)", "x = following", UNSENT),
    (
        *("ef21_begun", "at, values = network.gather(place.astype(np.int32), sent)"),
        *("at, values = place, sent", UNGATHERED),
    ),
    ("ef21_begun", "(g,) = network.gather(own)", "g = own", UNGATHERED),
    ("scaffnew_alone", "(x,) = network.broadcast(mean, to=everyone)", "x = mean", UNSENT),
    ("scaffnew_alone", "mean = sent.mean(0)", "mean = moved.mean(0)", UNGATHERED),
    ("scaffnew_alone", "moved - share * state.h)", "moved - share * state.h.mean(0))", MIXED),
    ("marina_begun", "(g,) = network.broadcast(state.g, to=everyone)", "g = state.g", UNSENT),
    ("marina_begun", "change.mean(0))", "change.mean(0) + np.random.normal())", UNEQUAL),
    ("lazy", "(x,) = network.broadcast(state.x, to=everyone)", "x = state.x", UNSENT),
    ("one_shot", "(sent,) = network.gather(own)", "sent = own", "the server is sent nothing"),
    (
        *("vfb2_sgd", RULE, f"{ROUND}network.secure_margins(state)\n        {SUPER}"),
        "a state whose updates may be under way: call state = network.barrier",
    ),
    ("fedavg", RETURNED, "State(state.x + delta.mean(0))", "round returned None in place of"),
    (
        *("one_shot", "state.k == 5:", "state.k % 4 == 3:\n            own = own + x", UNSENT),
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("small")


@pytest.fixture(scope="module")
def shards(folder):
    return small_shards(folder, "fedavg")


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The run of a method, whose file has one replacement."""
    projects = itertools.count()

    def made(name, old="", new=""):
        if name in SOURCES:
            source, hyper = SOURCES[name]
            source, partition, objective, graphs = HEAD + source, CLIENTS, LINEAR, None
        else:
            _, partition, objective, graphs, hyper = SMALL[name]
            name = f"wrong_{name}"
            source = OPENING + SHIPPED[name]
        assert old in source
        files = {f"methods/{name}.py": source.replace(old, new, 1 if old else 0)}
        open_project(tmp_path / f"project-{next(projects)}", files, monkeypatch)
        values = {"partition": partition, "objective": objective, "graphs": graphs}
        return specification(name, **values, hyper_parameters=hyper)

    return made


@pytest.fixture
def config(tmp_path):
    """A configuration without experiments."""
    return config_folder(tmp_path / "config")


@pytest.mark.parametrize("algorithm", algorithm_names())
def test_every_method_keeps_its_promises(algorithm, folder):
    assert rehearse(small(algorithm), small_shards(folder, algorithm)) == KEPT


@pytest.mark.parametrize("algorithm", ["scaffold", "coda_plus", "dp_gradient_tracking", "tdcd"])
def test_a_rehearsal_without_data_says_what_it_checked(algorithm):
    spec = small(algorithm)
    first, *checked = rehearse_without_data(spec).splitlines()
    assert first.startswith(f"{algorithm} {KEPT}")
    # Two are checked of every method.
    assert len(checked) == 2 + len(spec.federation.rehearsal)


def test_parties_as_processes_are_rehearsed_as_simulated_ones(folder):
    spec = small("vfb2_saga", backend="processes")
    assert rehearse(spec, small_shards(folder, "vfb2_saga")) == KEPT


@pytest.mark.parametrize("backend", ["simulated", "processes"])
def test_what_is_simulated_only_is_found_where_parties_are_processes(backend, written, folder):
    shards, settled = small_shards(folder, "vfb2_sgd"), "state = network.barrier(state, self.rule)"
    margins = "network.secure_margins(state)"
    spec = written("vfb2_sgd", RULE, f"{ROUND}{settled}; {margins}\n        {SUPER}")
    spec = spec.model_copy(update={"backend": backend})
    if backend == "simulated":
        assert rehearse(spec, shards) == KEPT
    else:
        with pytest.raises(FedatlasError, match=r"calls network\.barrier, which parties"):
            rehearse(spec, shards)


def test_a_rule_refuses_a_reference_that_there_is_not():
    with pytest.raises(ValueError, match="'snapshots': use one of none, snapshot, table"):
        UpdateRule(0.1, reference="snapshots")


def test_parties_that_settle_for_a_measurement_count_themselves(folder):
    network = {"latency": 1e-5, "compute": {"kind": "lognormal", "spread": 0.5}}
    spec = small("vfb2_saga", network=network)
    assert rehearse(spec, small_shards(folder, "vfb2_saga")) == KEPT


@pytest.mark.parametrize("name", SOURCES)
def test_a_correct_method_passes(name, written, shards):
    assert rehearse(written(name), shards) == KEPT


@pytest.mark.parametrize("seed", range(3))
def test_few_of_many_clients_pass(seed, written, shards):
    spec = written("buffered")
    hyper = spec.hyper_parameters | {"clients_per_round": 1 + seed, "concurrency": 9}
    changed = spec.model_copy(update={"hyper_parameters": hyper})
    assert rehearse(changed, shards) == KEPT


@pytest.mark.parametrize(("name", "old", "new", "found"), FAULTS)
def test_what_a_method_must_not_do_is_found(name, old, new, found, written, folder):
    shards = small_shards(folder, name if name in SMALL else "fedavg")
    with pytest.raises(FedatlasError, match=f"(?s){name}.py: .*{found}"):
        rehearse(written(name, old, new), shards)


def test_what_cannot_be_rehearsed_is_left_to_training(written, shards, caplog):
    spec = written("fedavg", GATHERED, "raise ValueError('more features')")
    assert rehearse(spec, shards) == "could not be rehearsed: ValueError: more features"
    assert "wrong_fedavg could not be rehearsed: ValueError" in caplog.text


def test_a_method_is_rehearsed_once_for_its_code_and_options(folder, tmp_path, monkeypatch):
    shards, done = small_shards(folder, "scaffold"), []
    monkeypatch.setattr(rehearsal, "rehearse", lambda spec, _: done.append(spec.name) or "told")
    for hyper in ({}, {"local_step_size": 0.1}, {"option": "I"}, {"option": "I", "local_steps": 2}):
        rehearse_once(small("scaffold", hyper), shards, tmp_path / "records")
    rehearse_once(small("fedavg"), shards, tmp_path / "records")
    assert len(done) == 3
    records = sorted(path.name[:7] for path in (tmp_path / "records").iterdir())
    assert records == ["fedavg-", "scaffol", "scaffol"]
    monkeypatch.setattr(rehearsal, "code_digest", lambda *modules: "other")
    rehearse_once(small("fedavg"), shards, tmp_path / "records")
    assert len(done) == 4


# ------------------------------------------------------------- what a method says of itself


def test_who_does_not_wait_has_no_critical_path_and_goes_on_where_it_was_killed(
    written, shards, tmp_path
):
    spec = written("buffered")
    trace = train(spec, shards, tmp_path / "trace.nc")
    network = "network(latency=0.1, bandwidth=1e6, gradient=1e-5)"
    assert is_counted(trace, "bytes") and not is_counted(trace, network)
    # Six models of seven numbers at the start; three deltas and three models in each of 7 rounds.
    np.testing.assert_array_equal(trace["messages"][:, -1], 6 + 7 * 6)
    np.testing.assert_array_equal(trace["bytes_up"][:, -1], 7 * 3 * 7 * 8)
    np.testing.assert_array_equal(trace["bytes_down"][:, -1], (6 + 7 * 3) * 7 * 8)
    resumed = killed_and_resumed((4, 9), spec, shards, tmp_path)
    assert without_times(resumed).identical(without_times(trace))
    for waits in ("False", "None"):
        spec = written("buffered", "ClassVar[bool] = True", f"ClassVar[Any] = {waits}")
        assert is_counted(train(spec, shards, tmp_path / "waits.nc"), network)
        if waits == "False":
            assert rehearse(spec, shards) == KEPT


BUDGETS = """    probability: PositiveFloat

    def budgets(self, context, iterations):
        from fedatlas.privacy.accountants import Budget

        spent = np.arange(1, iterations + 1) * context.samples * context.dimension
        return {"own": Budget(0.1 * spent, 1e-6 + 0 * spent), "other": None}
"""


def test_budgets_of_methods_around_a_server_are_recorded(written, shards, tmp_path):
    spec = written("scaffnew_alone", "    probability: PositiveFloat\n", BUDGETS)
    trace = train(spec, shards, tmp_path / "trace.nc")
    # Ten samples of seven features each.
    np.testing.assert_allclose(trace["epsilon"], [0.1 * 70 * np.array([0, 3, 6, 7])] * 2)
    np.testing.assert_allclose(trace["delta"], [[0, 1e-6, 1e-6, 1e-6]] * 2)
    assert trace.attrs["privacy_statement"] == "as the method itself accounts for it"
    assert "epsilon" not in train(written("scaffnew_alone"), shards, tmp_path / "none.nc")


def test_budgets_are_refused_where_nothing_records_them():
    class Private(algorithm_class("vfb2_sgd")):
        def budgets(self, context, iterations):
            return {}

    with pytest.raises(FedatlasError, match="defines 'budgets', which are recorded of methods"):
        Private.check_setting(PARTIES, LinearObjective(**LINEAR), None)


EXPERIMENT = """
paper: ours
title: asynchronous
source: ours
dataset: breast-cancer
partition: {kind: horizontal, assignment: shuffled, clients: 12, samples: 480}
objective: {name: logistic_l2, weight: 1.0e-2}
rounds: 7
record_every: 1
seeds: [0]
runs:
  buffered:
    algorithm: buffered
    hyper_parameters:
      {clients_per_round: 3, concurrency: 6, local_steps: 1, local_step_size: 0.1}
  fedavg:
    algorithm: fedavg
    hyper_parameters: {clients_per_round: 3, local_steps: 1, local_step_size: 0.1}
figure: {measurement: objective, costs: [round, COST]}
"""


def test_an_experiment_asks_methods_for_what_they_count_only(config, tmp_path, monkeypatch):
    network = '"network(latency=0.1, bandwidth=1e6, gradient=1e-5)"'
    claim = """
claims:
  - id: faster
    source: ours
    statement: FedBuff is faster
    test: {kind: cost_to_target, first: buffered, second: fedavg, relation: faster,
      measurement: objective, target: 0.5, cost: COST}
"""
    alone = EXPERIMENT[: EXPERIMENT.index("  fedavg:")] + EXPERIMENT[EXPERIMENT.index("figure:") :]
    files = {"methods/buffered.py": HEAD + FEDBUFF}
    cases = [
        (EXPERIMENT, network, None),
        (alone, network, "the figure looks at network.*'buffered' .*: its clients do not wait"),
        (EXPERIMENT + claim, network, "claim 'faster' looks at network.*'buffered' .*do not wait"),
        (
            EXPERIMENT,
            "epsilon",
            "the figure looks at epsilon, .*: it is not private, as its method has no 'b",
        ),
    ]
    for number, (text, cost, fault) in enumerate(cases):
        files["experiments/first.yaml"] = text.replace("COST", cost)
        project = open_project(tmp_path / str(number), files, monkeypatch)
        if fault is None:
            build_plan(config, project)
            continue
        with pytest.raises(FedatlasError, match=rf"first\.yaml: {fault}"):
            build_plan(config, project)


CNN = """
dataset: digits
partition: {kind: horizontal, assignment: dirichlet, concentration: 0.3, clients: 10, test: 0.2}
objective: {name: cross_entropy, model: cnn_8x8}
"""


def test_a_network_around_a_server_is_planned_and_rehearsed(config, tmp_path, monkeypatch):
    start, end = EXPERIMENT.index("dataset:"), EXPERIMENT.index("rounds:")
    text = EXPERIMENT[:start] + CNN + EXPERIMENT[end:].replace("COST", "bytes")
    of_tensors = FEDBUFF.replace("state.held.copy()", "state.held + 0.0")
    files = {"methods/buffered.py": HEAD + of_tensors, "experiments/first.yaml": text}
    project = open_project(tmp_path / "project", files, monkeypatch)
    plan = build_plan(config, project)
    spec = next(run for run in plan.runs.values() if run.algorithm == "buffered")
    assert "does what a method promises" in rehearse_without_data(spec)


def test_training_starts_under_one_hash_seed(monkeypatch):
    """Sets of names then have one order; Python starts once more only where it must."""
    started = []
    monkeypatch.setattr(cli.os, "execv", lambda _, words: started.append(words[1:]))
    monkeypatch.setattr(cli, "app", lambda: None)
    for undone in ("signal", "freeze", "set_threshold"):
        monkeypatch.setattr(cli.signal if undone == "signal" else cli.gc, undone, lambda *_: None)
    step = ["--verbose", "step", "train_run", "x"]
    monkeypatch.delenv("OMP_NUM_THREADS")
    export = ["export-model", "x", "y"]
    for words, seed in ((step, "7"), (step, "0"), (["list"], "7"), (export, "0"), (export, "0")):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        monkeypatch.setattr(sys, "argv", ["fedatlas", *words])
        cli.main()
        assert os.environ["PYTHONHASHSEED"] == ("7" if words == ["list"] else "0")
    assert started == [["-P", "-m", "fedatlas", *step], ["-P", "-m", "fedatlas", *export]]
    assert os.environ.pop("OMP_NUM_THREADS") == "1"
