"""Digests of code: the meaning of every fedatlas module that a step imports.

Comments, docstrings and formatting do not count; nor do imports under `if TYPE_CHECKING:` make a
module count. Source files are parsed, never imported. Rules take the digest as input from a small
file, since Snakemake does not see an edit of an imported package otherwise.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple

from fedatlas.errors import FedatlasError
from fedatlas.extensions import added_sources, projects
from fedatlas.files import canonical_json, file_digest, text_digest, write_text


class _Source(NamedTuple):
    """One file: the digests of its bytes and of its meaning, and modules it may import."""

    content: str
    meaning: str
    imports: list[str]


class SourceTree:
    """The modules of one package, each read once: later edits need a new tree."""

    def __init__(self, package: Path, added: Iterable[tuple[str, Path]] = ()) -> None:
        """package: its folder, whose name is that of the package.

        added: names of packages, and folders with more of their modules: of this one, or of others.
        """
        self._package = package
        # Parsing 60 files takes a tenth of a second, reading them 2 ms: what was found is kept
        # beside Python's own compiled files, which are missing or stale without harm, too.
        self._index = Path(cache_from_source(str(package / "__init__.py"))).with_name("index.json")
        self._version = file_digest(Path(__file__))
        self._indexed = self._read_index()
        self._there: dict[str, Path] = {}  # by names as if all lay beside the package's folder
        for name, folder in ((package.name, package), *added):
            base = name.replace(".", "/")
            for file in folder.rglob("*.py"):
                self._there.setdefault(f"{base}/{file.relative_to(folder).as_posix()}", file)
        self._tops = {name.partition("/")[0] for name in self._there}
        self._known: dict[str, _Source] = {}
        self._imported: dict[str, set[str]] = {}

    def closure(self, *modules: str) -> list[str]:
        """Files of `modules` and of all that they import, sorted.

        Those of the package by their path below it, others by that below their own's parent.
        Raises ValueError for one of `modules` that is not there.
        """
        return sorted(self._closure(*modules))

    def digest(self, *modules: str) -> str:
        """One digest over the names and meanings of the files of their closure."""
        files = self._closure(*modules)
        if not self._indexed.keys() >= set(files.values()):
            self._write_index()
        told = (f"{name} {self._source(files[name]).meaning}\n" for name in sorted(files))
        return text_digest("".join(told))

    def _closure(self, *modules: str) -> dict[str, str]:
        """The names of a closure's files, with those by which they are known here."""
        for module in modules:
            if not self._files([module]):
                raise ValueError(f"there is no module {module} in {self._package}")
        found: set[str] = set()
        waiting = self._files(part for module in modules for part in _with_parents(module))
        while waiting:
            file = waiting.pop()
            if file not in found:
                found.add(file)
                if file not in self._imported:  # closures overlap
                    self._imported[file] = self._files(self._source(file).imports)
                waiting |= self._imported[file]
        return {file.removeprefix(f"{self._package.name}/"): file for file in found}

    def _files(self, modules: Iterable[str]) -> set[str]:
        """Of those that are modules of the packages."""
        ours = {module for module in modules if module.partition(".")[0] in self._tops}
        return {file for file in map(self._module_file, ours) if file is not None}

    def _module_file(self, module: str) -> str | None:
        base = module.replace(".", "/")
        names = (f"{base}/__init__.py", f"{base}.py")
        return next((name for name in names if name in self._there), None)

    def _source(self, file: str) -> _Source:
        if file not in self._known:
            content = self._there[file].read_bytes()
            digest = sha256(content).hexdigest()
            source = self._indexed.get(file)
            if source is None or source.content != digest:
                self._indexed.pop(file, None)
                try:
                    tree = ast.parse(content)
                except SyntaxError as error:
                    place = f"{self._there[file]}, line {error.lineno}"
                    raise FedatlasError(f"{place}: {error.msg}") from error
                package = file.split("/")[:-1]
                source = _Source(digest, _meaning(tree), sorted(set(_imports(tree, package))))
            self._known[file] = source
        return self._known[file]

    def _read_index(self) -> dict[str, _Source]:
        """By file name; empty if it is missing or was written by another version."""
        try:
            version, sources = json.loads(self._index.read_bytes())
        except (OSError, ValueError):
            return {}
        if version != self._version:
            return {}
        return {name: _Source(*source) for name, source in sources.items()}

    def _write_index(self) -> None:
        self._indexed |= self._known
        with suppress(FedatlasError, OSError):  # an installation that cannot be written
            write_text(self._index, canonical_json([self._version, self._indexed]))


@cache
def _sources(added: tuple[tuple[str, Path], ...]) -> SourceTree:
    return SourceTree(Path(__file__).parent, added)


def import_closure(*modules: str) -> list[str]:
    """`SourceTree.closure` of this package, with the code of projects."""
    return _sources(added_sources(projects())).closure(*modules)


def code_digest(*modules: str) -> str:
    """One digest over what these modules, and all that they import here and in projects, mean.

    A param of rules: Snakemake sees edits by it. Asked again it takes microseconds.
    """
    return _digest(added_sources(projects()), modules)


def files_digest(files: Iterable[Path]) -> str:
    """One digest over the names and bytes of files that are no modules, such as a page's."""
    return text_digest("".join(f"{file.name} {file_digest(file)}\n" for file in files))


@cache
def _digest(added: tuple[tuple[str, Path], ...], modules: tuple[str, ...]) -> str:
    return _sources(added).digest(*modules)


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: n + 1]) for n in range(len(parts))]


def _meaning(tree: ast.Module) -> str:
    """Digest of a syntax tree without positions, docstrings and other strings that do nothing.

    Empty fields are left out, so that versions of Python that add some agree.
    """
    told: list[str] = []
    waiting: list[object] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.AST):
            fields = [name for name in part._fields if getattr(part, name, None) not in (None, [])]
            if isinstance(part, ast.Constant):
                fields = ["value"]  # not its kind: u"" is ""
            told.append(f"{type(part).__name__} {fields}")
            waiting += [getattr(part, name) for name in fields]
        elif isinstance(part, list):
            kept = [item for item in part if not _does_nothing(item)]
            told.append(f"{len(kept)}:")
            waiting += kept
        else:
            told.append(repr(part))
    return text_digest("\n".join(told))


def _does_nothing(item: object) -> bool:
    return (
        isinstance(item, ast.Expr)
        and isinstance(item.value, ast.Constant)
        and isinstance(item.value.value, str)
    )


def _imports(tree: ast.Module, package: Sequence[str]) -> Iterator[str]:
    """Names of modules, and of what may be modules, that a module of `package` imports."""
    for node in _runtime_statements(tree.body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            # Of a relative import, the package that its dots lead to.
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, node.module] if node.module else base)
            yield from _with_parents(module)
            # `from package import name` may name a submodule.
            yield from (f"{module}.{alias.name}" for alias in node.names)


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
