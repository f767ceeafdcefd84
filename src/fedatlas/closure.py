"""Which source files a job's result depends on: the import closure inside the package.

Read from the syntax tree, nothing is imported; blocks under `if TYPE_CHECKING:` do not count. The
workflow makes these files inputs of the job, because an edit to an imported package is otherwise
invisible to Snakemake.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from fedatlas.files import file_digest, text_digest

_PACKAGE_FOLDER = Path(__file__).parent
_PACKAGE = _PACKAGE_FOLDER.name


def import_closure(*modules: str) -> list[Path]:
    """Files of `modules` and of everything in the package that they import, sorted."""
    found: set[Path] = set()
    waiting = [part for module in modules for part in _with_parents(module)]
    while waiting:
        path = _module_file(waiting.pop())
        if path is not None and path not in found:
            found.add(path)
            waiting.extend(_imports(path))
    return sorted(found)


def source_digest(files: Iterable[Path]) -> str:
    """One digest over names and contents of source files."""
    return text_digest(
        "".join(f"{file.relative_to(_PACKAGE_FOLDER)} {file_digest(file)}\n" for file in files)
    )


def _module_file(module: str) -> Path | None:
    base = _PACKAGE_FOLDER.parent.joinpath(*module.split("."))
    if (base / "__init__.py").is_file():
        return base / "__init__.py"
    file = base.with_suffix(".py")
    return file if file.is_file() else None


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: n + 1]) for n in range(len(parts))]


@cache
def _imports(path: Path) -> tuple[str, ...]:
    names: list[str] = []
    for node in _runtime_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names.extend(_with_parents(alias.name))
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(path, node)
            names.extend(_with_parents(module))
            # `from package import name` may name a submodule.
            names.extend(f"{module}.{alias.name}" for alias in node.names)
    return tuple(name for name in names if name.split(".")[0] == _PACKAGE)


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    """The module that a `from … import` names, relative ones resolved."""
    if not node.level:
        return node.module or ""
    package = path.relative_to(_PACKAGE_FOLDER.parent).parent.parts
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def _runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for otherwise in child.orelse:
                yield from _runtime_nodes(otherwise)
        else:
            yield from _runtime_nodes(child)
