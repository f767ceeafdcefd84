"""The package's modules: no circles, imports go down the layers, short files.

Imports under TYPE_CHECKING and within functions count.
"""

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "fedatlas"
LONGEST_FILE = 500

# Lowest first: a module imports from its own layer and from lower ones.
LAYERS = (
    # Know nothing of the rest.
    {"plain_text", "markdown", "latex", "steps"},
    {"errors", "code", "extensions", "files", "interruption"},
    {"architectures", "objectives", "measurements"},  # networks, losses and quantities, by name
    {"schema"},  # what people write
    {"arithmetic"},  # losses, gradients and draws over samples
    {"compressors"},  # messages of fewer bits
    {"data"},  # raw to prepared samples
    {"shards"},  # who holds which samples
    {"privacy"},  # what noise buys
    {"federations"},  # who talks to whom
    {"algorithms"},  # one file per method
    # What a run measured: its file, and those of an experiment in one.
    {"store.netcdf", "store.packed", "store.trace", "store.experiment"},
    {"training"},  # shards to traces
    {"plan"},  # jobs, files and dependencies
    {"evaluation"},  # traces to verdicts
    {"theory"},  # constants, and what a theorem is
    {"theorems"},  # a file for each method that has some
    {"studies"},  # other questions
    {"figures"},
    {"provenance.expected"},  # whether a trace is still that of the plan
    {"store"},  # all papers on common axes
    {"pages"},  # what people look at besides figures
    {"provenance"},  # whether results are still true
    # Commands, and what `import fedatlas` offers.
    {"cli", "conform", "notebook", "rederiving", "__main__", ""},
)


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1:] == ("__init__",) else parts)


FILES = {module_name(path): path for path in SOURCE.rglob("*.py")}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def imports(module: str) -> set[str]:
    """Modules that are named in import statements; names are without the package's own."""
    found = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: write imports in full"
            found.add(str(node.module))
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    own = {name.removeprefix("fedatlas.") for name in found if name.startswith("fedatlas.")}
    return (own & FILES.keys()) - {module}


@cache
def graph() -> dict[str, set[str]]:
    return {module: imports(module) for module in FILES}


def layer(module: str) -> int:
    """The place of the longest name in LAYERS that the module lies in."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        for place, names in enumerate(LAYERS):
            if ".".join(parts[:end]) in names:
                return place
    raise AssertionError(f"{module} is in none of the layers: add it to LAYERS")


def test_no_module_imports_itself_by_way_of_others():
    finished: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " → ".join((*way[way.index(module) :], module))
        if module not in finished:
            for imported in sorted(graph()[module]):
                visit(imported, (*way, module))
            finished.add(module)

    for module in sorted(graph()):
        visit(module, ())


def test_imports_go_down_the_layers():
    upwards = [
        f"{module} imports {imported}"
        for module, found in sorted(graph().items())
        for imported in sorted(found)
        if layer(imported) > layer(module)
    ]
    assert not upwards, "\n".join(upwards)


def test_no_file_is_too_long():
    lengths = {name: path.read_bytes().count(b"\n") for name, path in FILES.items()}
    assert {name for name, n in lengths.items() if n > LONGEST_FILE} == set()


def test_a_public_method_has_a_docstring_or_overrides_one_that_has():
    classes = {
        node.name: node
        for module in FILES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ClassDef)
    }

    def methods(name: str) -> dict[str, ast.FunctionDef]:
        return {of.name: of for of in classes[name].body if isinstance(of, ast.FunctionDef)}

    def documented(name: str, method: str) -> bool:
        """In the class or in one above it; a library's classes document their own methods."""
        if name not in classes:
            return name != "object"
        declared = methods(name).get(method)
        if declared is not None and ast.get_docstring(declared):
            return True
        bases = [ast.unparse(base).split("[")[0].split(".")[-1] for base in classes[name].bases]
        plain = {"ABC", "Model", "BaseModel", "NamedTuple", "Protocol", "Generic"}
        return any(documented(base, method) for base in bases if base not in plain)

    lacking = [
        f"{name}.{method}"
        for name in classes
        for method in methods(name)
        if not name.startswith("_") and not method.startswith("_") and not documented(name, method)
    ]
    assert lacking == []
