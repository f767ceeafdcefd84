"""Import closures against what Python really imports; the meaning of code, and what edits rerun."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fedatlas
from experiment_files import plan_of_all
from fedatlas.code import SourceTree, import_closure
from fedatlas.plan.results import theory_code
from fedatlas.steps import STEPS

ROOT = fedatlas.__path__[0]


def run_closure(algorithm, kind="horizontal"):
    modules = ("training.loop", f"algorithms.{algorithm}", f"federations.{kind}")
    return set(import_closure(*(f"fedatlas.{module}" for module in modules)))


IMPORTS = """
import importlib, sys
for line in sys.stdin:
    for module in line.split():
        importlib.import_module(f"fedatlas.{module}")
    ours = [name for name in sys.modules if name.split(".")[0] == "fedatlas"]
    print(*(sys.modules.pop(name).__file__ for name in ours))
"""


def test_closure_covers_all_that_training_imports():
    """In one process, which keeps what is not fedatlas: that takes seconds to load."""
    runs = [("scaffold", "horizontal"), ("vfb2_saga", "vertical"), ("coda_plus", "min_max")]
    lines = [f"training.loop algorithms.{algorithm} federations.{kind}" for algorithm, kind in runs]
    lines[0] += " federations.horizontal.cpu_engine"
    call = [sys.executable, "-c", IMPORTS]
    given = "\n".join(lines)
    output = subprocess.run(call, input=given, capture_output=True, text=True, check=True).stdout
    for run, files in zip(runs, output.splitlines(), strict=True):
        imported = {path.removeprefix(ROOT + "/") for path in files.split()}
        assert {"training/loop.py", f"algorithms/{run[0]}.py"} <= imported <= run_closure(*run)


def test_a_methods_closure_holds_its_file_and_no_other_methods():
    closure = run_closure("fedpage")
    assert "algorithms/fedpage.py" in closure
    assert {"training/loop.py", "arithmetic/kernels/formulas.py", "errors.py"} <= closure
    assert not {"algorithms/scaffold.py", "algorithms/fedavg.py"} & closure


def test_runs_depend_on_the_code_of_their_own_kind_of_partition():
    horizontal, vertical = run_closure("fedpage"), run_closure("vfb2_sgd", "vertical")
    assert {
        "federations/horizontal/__init__.py",
        "federations/horizontal/problem.py",
    } <= horizontal - vertical
    assert {
        "federations/vertical/__init__.py",
        "federations/vertical/network.py",
    } <= vertical - horizontal
    min_max = run_closure("fmgda", "min_max")
    assert "federations/min_max/engine.py" in min_max - horizontal
    assert "arithmetic/batched_network.py" in min_max & horizontal
    assert not {"arithmetic/kernels/formulas.py", "federations/vertical/network.py"} & min_max
    assert not {name for name in min_max if name == "architectures/convolutional.py"}


def test_data_steps_do_not_depend_on_training():
    closure = set(import_closure("fedatlas.data.prepare", "fedatlas.shards.cutting"))
    assert not {
        name
        for name in closure - {"arithmetic/__init__.py", "arithmetic/samples.py"}
        if name.startswith(("algorithm", "arithmetic", "federations", "training"))
    }


def test_relative_imports_and_else_branches_count(tmp_path):
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
    found = set(SourceTree(package).closure("fedatlas.algorithms.mine"))
    modules = {"algorithms/mine.py", "algorithms/_shared.py", "a.py", "c.py"}
    assert found == modules | {"__init__.py", "algorithms/__init__.py"}


def test_a_module_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match=r"fedatlas\.training\.lop"):
        import_closure("fedatlas.training.lop")


# What code means.


def meaning(tmp_path, text):
    """The digest of a package of one module."""
    package = tmp_path / "small"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(text)
    return SourceTree(package).digest("small")


FUNCTION = 'def f(x: int = 1) -> float:\n    return x + 2.0 * g("a", -1)\n'


@pytest.mark.parametrize(
    "edited",
    [
        "# a comment\n\n" + FUNCTION.replace("\n", "  # another\n"),
        '"""A docstring."""\n' + FUNCTION,
        FUNCTION.replace("    return", '    """A docstring."""\n    return'),
        FUNCTION.replace("    return", '    "a string"\n    u"that does nothing"\n    return'),
        "def f(\n\tx: int=1,\n)->float:\n\treturn (x) + (2.0*\n\t\tg('a', - 1))",
        FUNCTION.replace('"a"', 'u"" "a"').replace("2.0", "2.00"),
    ],
)
def test_comments_docstrings_and_formatting_mean_nothing(tmp_path, edited):
    assert meaning(tmp_path, edited) == meaning(tmp_path, FUNCTION)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.0", "2"),
        ("2.0", "2.1"),
        ("-1", "1"),
        ('"a"', '"b"'),
        ('"a"', 'b"a"'),
        ('"a", -1', '-1, "a"'),
        ('"a", -1', '"a, -1"'),
        ('"a"', "a"),
        ('"a"', "None"),
        ("x + ", "x - "),
        ("x: int", "y: int"),
        ("x: int", "x: str"),  # what pydantic and dataclasses read
        ("x: int", "x"),
        ("return ", "return 1, "),
        ("    return", "    assert x\n    return"),
        ("    return", '    "a string".join(x)\n    return'),
        ("    return", '    f"{x.changed()}"\n    return'),
        ("def f", "@cached\ndef f"),
        ("def f", "async def f"),
        ("def f", "name = 'text'\n\n\ndef f"),
    ],
)
def test_everything_else_has_a_meaning(tmp_path, old, new):
    assert old in FUNCTION
    assert meaning(tmp_path, FUNCTION.replace(old, new)) != meaning(tmp_path, FUNCTION)


def test_names_of_files_and_imported_modules_count(tmp_path):
    alone = meaning(tmp_path, "from small import other")
    (tmp_path / "small" / "other.py").write_text("a = 1\n")
    one = meaning(tmp_path, "from small import other")
    (tmp_path / "small" / "other.py").write_text("a = 2\n")
    assert len({alone, one, meaning(tmp_path, "from small import other")}) == 3


@pytest.mark.parametrize("index", ["kept", "lost", "damaged", "of another version", "a folder"])
def test_digests_do_not_depend_on_what_was_kept_of_earlier_ones(tmp_path, index):
    file = tmp_path / "small" / "__pycache__" / "index.json"
    first, other = meaning(tmp_path, FUNCTION), meaning(tmp_path, "a = 1\n")
    if index == "damaged":
        file.write_text(file.read_text()[:-9])
    elif index == "of another version":
        file.write_text(file.read_text().replace('["', '["0', 1).replace(other[:4], "0000"))
    elif index != "kept":
        file.unlink()
    if index == "a folder":
        file.mkdir()  # so that it cannot be written, either
    assert meaning(tmp_path, "a = 1  # one\n") == other
    assert meaning(tmp_path, FUNCTION) == first


# Edits of this package, and what they would rerun.


@pytest.fixture(scope="module")
def plan():
    return plan_of_all()


@pytest.fixture(scope="module")
def specs(plan):
    """Of the demo's runs."""
    names = [name for name in plan.experiments if name.startswith("demo-")]
    return [spec for name in names for spec in plan.runs_of(name)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A copy of the package that was read once, so that later readings are quick."""
    ignored = shutil.ignore_patterns("__pycache__", "*.js", "*.html", "*.css")
    package = tmp_path_factory.mktemp("whole") / "fedatlas"
    shutil.copytree(ROOT, package, ignore=ignored)
    SourceTree(package).digest(*modules_of(package))
    return package


@pytest.fixture
def package(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "fedatlas"))


def modules_of(package):
    files = package.rglob("*.py")
    return [".".join(file.relative_to(package.parent).with_suffix("").parts) for file in files]


def digests(package, specs):
    """Code → its digest, of the package as it is now."""
    tree = SourceTree(package)
    return {code: tree.digest(*code) for code in {spec.code for spec in specs}}


def test_another_wording_and_formatting_of_everything_reruns_nothing(package, specs):
    before = digests(package, specs)
    for file in package.rglob("*.py"):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            match node:
                case ast.Expr(ast.Constant(str()) as words):
                    words.value = "other words"
        file.write_text("# A comment.\n" + ast.unparse(tree))  # all comments go, lines and quotes
    assert digests(package, specs) == before


EDITS = {
    "algorithms/scaffold.py": lambda spec: spec.algorithm == "scaffold",
    "federations/vertical/kernels/events.py": lambda spec: spec.federation.name == "vertical",
    "federations/tiered/linear_engine.py": lambda spec: spec.federation.name == "tiered",
    "arithmetic/kernels/formulas.py": lambda spec: spec.federation.name != "min_max",
    "federations/decentralised/__init__.py": (lambda spec: spec.federation.name == "decentralised"),
    # Agents compute gradients of linear models as clients do.
    "federations/horizontal/problem.py": lambda spec: (
        spec.federation.name in ("horizontal", "decentralised")
    ),
    "federations/min_max/engine.py": lambda spec: spec.federation.name == "min_max",
    "training/loop.py": lambda spec: True,
    "evaluation/verdicts.py": lambda spec: False,
    "theorems/fedpage.py": lambda spec: False,
    "plan/build.py": lambda spec: False,
}


def test_an_edit_reruns_exactly_the_runs_that_import_it(package, specs):
    before = digests(package, specs)
    assert digests(package, specs) == before
    for edited, reruns in EDITS.items():
        with (package / edited).open("a") as file:
            file.write("\n_EDITED = True\n")
        after = digests(package, specs)
        changed = {code for code in before if after[code] != before[code]}
        assert changed == {spec.code for spec in specs if reruns(spec)}, edited
        before = after


# File → the methods whose theorems it has.
THEOREMS = {
    "theorems/fedpage.py": {"fedpage"},
    "theorems/tdcd.py": {"tdcd"},
    "theorems/_vfb2_convex.py": {"vfb2_sgd", "vfb2_svrg", "vfb2_saga"},
    "theory/constants.py": None,  # of all
}


def test_an_edit_of_theorems_reruns_exactly_the_tables_about_their_methods(package, plan):
    methods, code = {}, {}
    for name in plan.experiments:
        if plan.experiments[name].theory:
            methods[name] = {spec.algorithm for spec in plan.runs_of(name)}
            code[name] = (*STEPS["tabulate_theory"].code, *theory_code(plan, name))

    def tables():
        tree = SourceTree(package)
        return {name: tree.digest(*of) for name, of in code.items()}

    before = tables()
    for edited, of in THEOREMS.items():
        with (package / edited).open("a") as file:
            file.write("\n_EDITED = True\n")
        after = tables()
        changed = {name for name in before if after[name] != before[name]}
        assert changed == {name for name in code if of is None or methods[name] & of}, edited
        before = after


# What is compiled, kept on disk.

MODULE = """
from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.formulas import loss_value

@compiled
def own_loss(margin):
    return loss_value(2, margin, 0.0)
"""
CALL = """
import numpy as np
from fedatlas.arithmetic.kernels.formulas import losses
from fedatlas.arithmetic.own import own_loss
print(losses(2, np.ones(1), np.zeros(1))[0])
print(own_loss(1.0))
print(len(losses.stats.cache_misses) + len(own_loss.stats.cache_misses))
"""
COMMENT = ("import numpy as np", "# A comment.\n\nimport numpy as np")
CUBE = ("return (margin - label) ** 2", "return (margin - label) ** 2 + 1.0")


# Every call is a process of its own, a fork of one that has loaded numba, but nothing of fedatlas.
FORKS = """
import json, os, sys
import numba.core.config, numpy
for line in sys.stdin:
    process = os.fork()
    if process == 0:
        os.environ.update(json.loads(line))
        numba.core.config.reload_config()
        exec(sys.argv[1])
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(process, 0)
    print("done", flush=True)
"""


@pytest.fixture
def compiled_results(package):
    """Two losses, by two modules, and how many functions had to be compiled for them."""
    # An own import after the edit would read Python's file of one second ago.
    own = {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    call = [sys.executable, "-c", FORKS, CALL]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(call, env=os.environ | own, **pipes) as process:

        def results(**environment):
            process.stdin.write(json.dumps(environment) + "\n")
            process.stdin.flush()
            return [float(line) for line in iter(process.stdout.readline, "done\n")]

        yield results


def of_losses(folder: Path) -> list[Path]:
    """What was compiled, without what losses call, which no edit here changes."""
    return [x for x in folder.rglob("*.nbc") if not x.name.startswith("elementary.")]


def test_compiled_code_is_kept_until_its_meaning_changes_or_it_is_damaged(
    package, compiled_results, tmp_path
):
    formulas = package / "arithmetic/kernels/formulas.py"
    (package / "arithmetic/own.py").write_text(MODULE)
    assert compiled_results() == [1.0, 1.0, 2]
    kept = {file.name for file in of_losses(package)}
    assert len(kept) == 2
    formulas.write_text(formulas.read_text().replace(*COMMENT))
    assert compiled_results() == [1.0, 1.0, 0]
    formulas.write_text(formulas.read_text().replace(*CUBE))
    # In the folder that a user has chosen, which is another.
    chosen = tmp_path / "chosen"
    assert compiled_results(NUMBA_CACHE_DIR=str(chosen)) == [2.0, 2.0, 2]
    assert {file.name for file in of_losses(package)} == kept
    assert len(of_losses(chosen)) == 2
    assert compiled_results() == [2.0, 2.0, 2]
    # What older code was compiled to does not pile up.
    after = {file.name for file in of_losses(package)}
    assert len(after) == 2 and not after & kept
    # A flipped bit would be other arithmetic; a power failure leaves files short.
    flipped, cut = of_losses(package)
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    cut.write_bytes(cut.read_bytes()[:-1])
    assert compiled_results() == [2.0, 2.0, 2]
    assert compiled_results() == [2.0, 2.0, 0]
