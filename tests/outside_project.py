"""Projects outside this repository, with the files that pages of the documentation show whole."""

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from fedatlas.extensions import CODE, VARIABLE, open_projects

DOCS = Path(__file__).parent.parent / "docs"


def whole_files(*pages: str) -> dict[str, str]:
    """The files of these pages, by their path in a project."""
    texts = [(DOCS / f"{page}.md").read_text(encoding="utf-8") for page in pages]
    found = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", "".join(texts), re.DOTALL)
    assert len(found) == len(dict(found)), "a file stands twice"
    return dict(found)


def write_project(folder: Path, files: Mapping[str, str]) -> Path:
    """The folder, with these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def open_project(folder: Path, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, which is the only project of this process until the test ends."""
    write_project(folder, files)
    monkeypatch.setenv(VARIABLE, "")
    for package in map(import_module, CODE.values()):
        monkeypatch.setattr(package, "__path__", [*package.__path__])
    for module in [name for name in sys.modules if is_projects_own(name, files)]:
        monkeypatch.delitem(sys.modules, module)
    open_projects([folder])
    return folder


def is_projects_own(module: str, files: Mapping[str, str]) -> bool:
    """Whether a module that is loaded may be one of the files, of an earlier test's project."""
    package, _, name = module.rpartition(".")
    return any(package == CODE[kind] and f"{kind}/{name}.py" in files for kind in CODE)
