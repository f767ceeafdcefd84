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

_PACKAGE_FOLDER = Path(__file__).parents[1]
_PACKAGE = _PACKAGE_FOLDER.name


def import_closure(*modules: str) -> list[Path]:
    """Files of `modules` and of everything in the package that they import, sorted."""
    found: set[Path] = set()
    waiting = [*_files(part for module in modules for part in _with_parents(module))]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(_imported_files(path))
    return sorted(found)


def source_digest(files: Iterable[Path]) -> str:
    """One digest over names and contents of source files."""
    return text_digest(
        "".join(f"{file.relative_to(_PACKAGE_FOLDER)} {file_digest(file)}\n" for file in files)
    )


def _files(modules: Iterable[str]) -> set[Path]:
    """Of those that are modules of the package."""
    own = {name for name in modules if name.split(".")[0] == _PACKAGE}
    return {file for file in map(_module_file, own) if file is not None}


@cache
def _imported_files(path: Path) -> frozenset[Path]:
    return frozenset(_files(_imports(path)))


def _module_file(module: str) -> Path | None:
    base = _PACKAGE_FOLDER.parent.joinpath(*module.split("."))
    if (base / "__init__.py").is_file():
        return base / "__init__.py"
    file = base.with_suffix(".py")
    return file if file.is_file() else None


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: n + 1]) for n in range(len(parts))]


def _imports(path: Path) -> Iterator[str]:
    """Names of modules, and of what may be modules, that a file imports."""
    for node in _runtime_statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(path, node)
            yield from _with_parents(module)
            # `from package import name` may name a submodule.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    """The module that a `from … import` names, relative ones resolved."""
    if not node.level:
        return node.module or ""
    package = path.relative_to(_PACKAGE_FOLDER.parent).parent.parts
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def _runtime_statements(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """These and all within them; expressions, which hold no imports, are not looked at."""
    waiting = list(statements)
    while waiting:
        statement = waiting.pop()
        yield statement
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            waiting.extend(statement.orelse)
            continue
        for block in ("body", "orelse", "finalbody"):
            waiting.extend(getattr(statement, block, ()))
        # Of try and of match.
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            waiting.extend(part.body)
