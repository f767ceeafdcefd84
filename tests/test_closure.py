"""Import closures against what Python really imports."""

import subprocess
import sys

import fedatlas
from fedatlas.closure import import_closure, source_digest, training_modules

ROOT = fedatlas.__path__[0]


def run_closure(algorithm):
    return import_closure(*training_modules(algorithm))


def names(paths):
    return {str(path).removeprefix(ROOT + "/") for path in paths}


def test_closure_covers_all_that_training_imports():
    program = (
        "import sys, fedatlas.training, fedatlas.algorithms.scaffold, fedatlas.problems.on_cpu\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'fedatlas'))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    imported = {path.removeprefix(ROOT + "/") for path in output.split()}
    assert imported <= names(run_closure("scaffold"))


def test_a_methods_closure_holds_its_file_and_no_other_methods():
    closure = names(run_closure("fedpage"))
    assert "algorithms/fedpage.py" in closure
    assert {"training.py", "problems/kernels.py", "errors.py"} <= closure
    assert not {"algorithms/scaffold.py", "algorithms/fedavg.py"} & closure


def test_training_does_not_depend_on_evaluation_or_the_workflow():
    closure = names(run_closure("fedavg"))
    assert not {name for name in closure if name.startswith(("evaluation/", "figures/"))}
    assert not {"cli.py", "plan.py", "experiments.py", "claims.py"} & closure


def test_data_steps_do_not_depend_on_training():
    closure = names(import_closure("fedatlas.data.prepare")) | names(
        import_closure("fedatlas.shards")
    )
    assert not {name for name in closure if name.startswith(("algorithm", "problems", "training"))}


def test_digest_follows_contents(tmp_path, monkeypatch):
    monkeypatch.setattr("fedatlas.closure._PACKAGE_FOLDER", tmp_path)
    file = tmp_path / "module.py"
    file.write_text("a = 1\n")
    first = source_digest([file])
    file.write_text("a = 2\n")
    assert source_digest([file]) != first
    file.write_text("a = 1\n")
    assert source_digest([file]) == first
