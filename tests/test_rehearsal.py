"""What a rehearsal finds: nothing in the methods that are here, and each fault of wrong ones."""

import sys
import textwrap

import pytest

from fedatlas import algorithms
from fedatlas.algorithms import algorithm_names
from fedatlas.errors import FedatlasError
from fedatlas.training import rehearsal
from fedatlas.training.rehearsal import rehearse, rehearse_once, rehearse_without_data
from small_federations import SMALL, small, small_shards, specification

pytestmark = pytest.mark.usefixtures("one_thread")

KEPT = "does what a method promises"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("small")


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


def test_parties_that_settle_for_a_measurement_count_themselves(folder):
    network = {"latency": 1e-5, "compute": {"kind": "lognormal", "spread": 0.5}}
    spec = small("vfb2_saga", network=network)
    assert rehearse(spec, small_shards(folder, "vfb2_saga")) == KEPT


# ------------------------------------------------------------------------ wrong methods

HEAD = """
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedatlas.algorithms.{base} import {parent}
from fedatlas.federations.vertical.problem import UpdateRule

class Wrong({parent}):
    title: ClassVar[str] = "Wrong"
    source: ClassVar[str] = "a test"
"""
AVERAGING = """
memory: ClassVar[dict] = {{}}

def start(self, problem, network, x0):
    return State(x0)

def round(self, state, problem, network, random):
    clients = random.sample(problem.clients, self.clients_per_round)
    (x,) = network.broadcast(state.x, to=clients)
    batch = problem.minibatches(random, clients, self.batch_size, self.local_steps)
    y = problem.local_sgd(x, batch, self.local_step_size)
    (delta,) = network.gather(y - x)
    return State(state.x + delta.mean(0))
"""
FROZEN = "\n@dataclass(frozen=True)\nclass State:\n    x: Any\n    more: Any = None\n"
GATHERED = "(delta,) = network.gather(y - x)\n"
RETURNED = "return State(state.x + delta.mean(0))"
ON_GRAPH = """
def round(self, state, problem, network, random):
    x_sent = network.states.send(state.x)
    g = self._gradients(state.x, problem, random)
    return type(state)(state.k + 1, state.x + 0.1 * network.states.towards(state.x, x_sent) - g)
"""
OF_PARTIES = """
def round(self, state, problem, network, random):
    return super().round(state, problem, network, random)
"""
STEPPING = """
def start(self, problem, network, x0):
    return State(x0.theta, x0.w)

def round(self, state, problem, network, random):
    theta, w = problem.copies(state.theta), problem.copies(state.w)
    for step in range(self.local_steps):
        g = problem.gradients(theta, w, problem.minibatches(random, 4))
        theta, w = theta - 0.1 * g.theta, w + 0.1 * g.w
        problem.step_done()
    theta, w = network.gather(theta, w)
    return State(theta.mean(0), w.mean(0))
"""
BODIES = {
    "fedavg": AVERAGING,
    "local_sgda": STEPPING,
    "gaussian_gradient_descent": ON_GRAPH,
    "vfb2_sgd": OF_PARTIES,
}
PARENTS = {
    "fedavg": "FedAvg",
    "local_sgda": "LocalSgda, State",
    "gaussian_gradient_descent": "GaussianGradientDescent",
}

# The method that is made wrong, what is replaced by what, and what is found.
WRONG = {
    "not gathered": ("fedavg", GATHERED, "delta = y - x\n", "the server is sent nothing: call"),
    "not broadcast": (
        *("fedavg", "(x,) = network.broadcast(state.x, to=clients)", "x = state.x"),
        r"what clients send depends on the server's state .*network\.broadcast returns",
    ),
    "NaN": (
        *("fedavg", "delta.mean(0)", 'delta.mean(0) * float("nan")'),
        "makes the state's x and the model that is measured NaN.* was sent is not NaN",
    ),
    "NaN is sent": (
        *("fedavg", "network.gather(y - x)", "network.gather((y - x) * np.nan)"),
        "the state's x .* NaN.*, and what is given to gather is NaN already: look",
    ),
    "NaN is kept": (
        *("fedavg", RETURNED, "return State(state.x + delta.mean(0), np.nan * state.x)"),
        "the first round makes the state's more NaN",
    ),
    "past gather": (
        *("fedavg", "delta.mean(0)", "(y - x).mean(0)"),
        r"after round 0 the server's model depends on samples .*network\.gather returns",
    ),
    "past gather later": (
        *("fedavg", RETURNED),
        "m = 0 if state.more is None else state.more\n"
        "    return State(state.x + delta.mean(0) + m, (y - x).mean(0))",
        "after round 1 the server's model depends on samples",
    ),
    "past broadcast": (
        *("fedavg", "network.gather(y - x)", "network.gather(y - state.x)"),
        r"what clients send depends on the server's state .*network\.broadcast returns",
    ),
    "a mean is sent": (
        *("fedavg", "network.gather(y - x)", "network.gather((y - x).mean(0))"),
        r"network\.gather is given an array of shape \(6,\): give the rows \(clients, …\)",
    ),
    "rows of others": (
        *("fedavg", "network.gather(y - x)", "network.gather(y - y.mean(0))"),
        "a row that a client sends depends on other clients' samples",
    ),
    "uncounted": (
        *("fedavg", GATHERED, GATHERED + "    problem.client_gradients(x, batch)\n"),
        r"uses problem\.client_gradients, which is not counted",
    ),
    "measured": (
        *("fedavg", GATHERED, GATHERED + "    problem.measure(state.x)\n"),
        r"uses problem\.measure, which is not counted",
    ),
    "private": (
        *("fedavg", GATHERED, GATHERED + "    network._counters.bytes_up = 0\n"),
        r"uses network\._counters, which is private",
    ),
    "kept in the problem": (
        *("fedavg", GATHERED, GATHERED + "    problem.last = delta\n"),
        r"sets problem\.last: keep what lasts in the state",
    ),
    "can be changed": ("fedavg", "frozen=True", "frozen=False", "State can be changed: write"),
    "in place": (
        *("fedavg", RETURNED, "x0 = state.x; x0 += delta.mean(0); return State(x0)"),
        "round changes the state's x in place: return a new array",
    ),
    "a list": (
        *("fedavg", RETURNED, "return State(state.x + delta.mean(0), [1])"),
        "the state's more is a list, which no checkpoint keeps",
    ),
    "kept elsewhere": (
        *("fedavg", RETURNED),
        "self.memory['x'] = 0.9 * self.memory.get('x', 0) + delta.mean(0)\n"
        "    return State(state.x + self.memory['x'])",
        "two rehearsals under one seed differ",
    ),
    "draws by itself": (
        *("fedavg", "delta.mean(0))", "delta.mean(0) + np.random.normal(size=6))"),
        "two rehearsals under one seed differ",
    ),
    "no steps": (
        *("local_sgda", "problem.step_done()", "pass"),
        r"no step: call problem\.step_done\(\) after each",
    ),
    "past gather, by workers": (
        *("local_sgda", "network.gather(theta, w)", "theta, network.gather(w)[0]"),
        "the server's model depends on samples of others",
    ),
    "nothing sent": (
        *("gaussian_gradient_descent", "network.states.send(state.x)", "state.x"),
        "agents are sent nothing: call network.states.send",
    ),
    "past send": (
        *("gaussian_gradient_descent", "towards(state.x, x_sent)", "towards(state.x, state.x)"),
        r"an agent's model depends on samples of others .*network\.states\.send returns",
    ),
    "past edges": (
        *("gaussian_gradient_descent", "network.states.towards(state.x, x_sent)"),
        "(x_sent.mean(0) - state.x)",
        "depends on an agent from which no edge leads to it",
    ),
    "no bytes": (
        *("gaussian_gradient_descent", "send(state.x)", "send(state.x, message_bytes=0)"),
        "is told that a row takes 0 bytes",
    ),
    "parties do nothing": (
        *("vfb2_sgd", "super().round(state, problem, network, random)", "state"),
        "parties update nothing: call network.dominated_updates",
    ),
    "past parties": (
        *("vfb2_sgd", "super().round(state, problem", "super().round(self._moved(state), problem"),
        "given a state whose blocks `x` are not those that the network returned",
    ),
}  # fmt: skip


def write(folder, name, base, old, new):
    """The file of a method that is wrong by one replacement."""
    body = BODIES[base]
    source = HEAD.format(base=base, parent=PARENTS.get(base, "Vfb2Sgd"))
    source = source.replace(", State):", "):")
    source += textwrap.indent(body, "    ")
    source += "\n    def _moved(self, state):\n        return state._replace(x=state.x + 1)\n"
    if base == "fedavg":
        source = source.replace("\nclass Wrong", f"{FROZEN}\nclass Wrong", 1)
    new = textwrap.indent(new, "    ").lstrip() if "\n" in new else new
    old = textwrap.indent(old, "    ").lstrip() if "\n" in old else old
    assert old in source
    (folder / f"{name}.py").write_text(source.replace(old, new).replace("{{}}", "{}"))


@pytest.fixture
def wrong(folder, tmp_path, monkeypatch):
    """Specification and shards of a wrong method."""
    monkeypatch.setattr(algorithms, "__path__", [*algorithms.__path__, str(tmp_path)])

    def made(what, base, old, new):
        name = f"wrong_{list(WRONG).index(what)}"
        write(tmp_path, name, base, old, new)
        monkeypatch.delitem(sys.modules, f"fedatlas.algorithms.{name}", raising=False)
        _, partition, objective, graphs, hyper = SMALL[base]
        values = {"partition": partition, "objective": objective, "graphs": graphs}
        spec = specification(name, **values, hyper_parameters=hyper)
        return spec, small_shards(folder, base)

    return made


@pytest.mark.parametrize("what", WRONG)
def test_what_a_method_must_not_do_is_found(what, wrong):
    *changed, found = WRONG[what]
    spec, shards = wrong(what, *changed)
    with pytest.raises(FedatlasError, match=f"(?s)wrong_[0-9]+.py: .*{found}"):
        rehearse(spec, shards)


def test_what_cannot_be_rehearsed_is_left_to_training(wrong, caplog):
    spec, shards = wrong("not gathered", "fedavg", GATHERED, "raise ValueError('more features')\n")
    assert rehearse(spec, shards) == "could not be rehearsed: ValueError: more features"
    assert "wrong_0 could not be rehearsed: ValueError" in caplog.text


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
