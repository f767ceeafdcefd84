"""Import closures against what Python really imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fedatlas
from fedatlas.plan.closure import import_closure, source_digest

ROOT = fedatlas.__path__[0]


def run_closure(algorithm, kind="horizontal"):
    modules = ("training.loop", f"algorithms.{algorithm}", f"federations.{kind}.setting")
    return import_closure(*(f"fedatlas.{module}" for module in modules))


def names(paths):
    return {str(path).removeprefix(ROOT + "/") for path in paths}


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("scaffold", "horizontal"),
        ("vfb2_saga", "vertical"),
        ("coda_plus", "min_max"),
    ],
)
def test_closure_covers_all_that_training_imports(algorithm, kind):
    program = (
        f"import sys, fedatlas.training.loop, fedatlas.algorithms.{algorithm}\n"
        f"import fedatlas.federations.{kind}.setting\n"
        + ("import fedatlas.federations.horizontal.cpu_engine\n" if kind == "horizontal" else "")
        + "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'fedatlas'))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    imported = {path.removeprefix(ROOT + "/") for path in output.split()}
    assert imported <= names(run_closure(algorithm, kind))


def test_a_methods_closure_holds_its_file_and_no_other_methods():
    closure = names(run_closure("fedpage"))
    assert "algorithms/fedpage.py" in closure
    assert {"training/loop.py", "arithmetic/kernels.py", "errors.py"} <= closure
    assert not {"algorithms/scaffold.py", "algorithms/fedavg.py"} & closure


def test_runs_depend_on_the_code_of_their_own_kind_of_partition():
    horizontal, vertical = names(run_closure("fedpage")), names(run_closure("vfb2_sgd", "vertical"))
    assert {
        "federations/horizontal/setting.py",
        "federations/horizontal/problem.py",
    } <= horizontal - vertical
    assert {
        "federations/vertical/setting.py",
        "federations/vertical/network.py",
    } <= vertical - horizontal
    min_max = names(run_closure("fmgda", "min_max"))
    assert {
        "federations/min_max/engine.py",
        "arithmetic/batched_network.py",
    } <= min_max - horizontal
    assert not {"arithmetic/kernels.py", "federations/vertical/network.py"} & min_max
    assert not {name for name in min_max if name.startswith("architectures/cnn")}


def test_training_does_not_depend_on_evaluation_or_the_workflow():
    closure = names(run_closure("fedavg"))
    assert not {name for name in closure if name.startswith(("evaluation/", "figures/"))}
    assert not {"cli.py", "plan/plan.py", "schema/experiments.py", "schema/claims.py"} & closure


def test_data_steps_do_not_depend_on_training():
    closure = names(import_closure("fedatlas.data.prepare")) | names(
        import_closure("fedatlas.shards.clients")
    )
    assert not {
        name
        for name in closure - {"arithmetic/__init__.py", "arithmetic/samples.py"}
        if name.startswith(("algorithm", "arithmetic", "federations", "training"))
    }


def test_relative_imports_and_else_branches_count(tmp_path, monkeypatch):
    package = tmp_path / "fedatlas"
    (package / "algorithms").mkdir(parents=True)
    for name in ("__init__", "algorithms/__init__", "algorithms/_shared", "a", "b", "c"):
        (package / f"{name}.py").write_text("")
    (package / "algorithms" / "mine.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from ._shared import estimator\n"
        "from .. import a\n"
        "if TYPE_CHECKING:\n    import fedatlas.b\nelse:\n    import fedatlas.c\n"
    )
    monkeypatch.setattr("fedatlas.plan.closure._PACKAGE_FOLDER", package)
    found = {str(path.relative_to(package)) for path in import_closure("fedatlas.algorithms.mine")}
    modules = {"algorithms/mine.py", "algorithms/_shared.py", "a.py", "c.py"}
    assert found == modules | {"__init__.py", "algorithms/__init__.py"}


def test_compiled_code_takes_no_constant_from_another_file():
    """Compiled code is cached by its own file's time stamp: such a constant would go stale."""
    path = Path(ROOT) / "arithmetic" / "kernels.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    compiled = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert all("njit" in ast.dump(node.decorator_list[0]) for node in compiled)
    own = {node.name for node in compiled}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if all(isinstance(value, ast.Constant) for value in values):
                own |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    used = {
        name.id
        for function in compiled
        for name in ast.walk(function)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)
    }
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module.startswith("fedatlas")
        for alias in node.names
    }
    assert {"_ROBUST", "_LOGISTIC"} <= own
    assert not used & imported
    module_names = {name for name in used if name.startswith("_") or name.isupper()}
    assert module_names <= own


def test_digest_follows_contents(tmp_path, monkeypatch):
    monkeypatch.setattr("fedatlas.plan.closure._PACKAGE_FOLDER", tmp_path)
    file = tmp_path / "module.py"
    file.write_text("a = 1\n")
    first = source_digest([file])
    file.write_text("a = 2\n")
    assert source_digest([file]) != first
    file.write_text("a = 1\n")
    assert source_digest([file]) == first
