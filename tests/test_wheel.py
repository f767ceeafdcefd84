"""A wheel, built from an sdist, brings what commands read: they work in an empty folder."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Of published results one folder, which keeps this quick.
CARRIED = ("Snakefile", "rules", "workflow", "profiles", "config", "published/crosspaper")
BUILT_FROM = ("src", "tests/certificates", "pyproject.toml", "setup.py", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with what pip would put into site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in (*CARRIED, *BUILT_FROM):
        source, copy = ROOT / name, folder / "tree" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(
                source, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            shutil.copy(source, copy)
    _build("sdist", folder / "tree", folder)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as packed:
        packed.extractall(folder / "sdist", filter="data")
    _build("wheel", next((folder / "sdist").iterdir()), folder)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


def _build(kind, source, output):
    code = f"from setuptools import build_meta; build_meta.build_{kind}({str(output)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True)


def _files(folder):
    return {
        file.relative_to(folder): file.read_bytes()
        for name in CARRIED
        for file in (folder / name, *(folder / name).rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }


def _call(site, folder, *arguments):
    own = {name: text for name, text in os.environ.items() if not name.startswith("FEDATLAS_")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env={**own, "PYTHONPATH": str(site)}, capture_output=True, text=True,
    )  # fmt: skip


def test_it_has_the_files_of_the_repository(site):
    found = _files(site / "fedatlas/repository")
    assert found == _files(ROOT)
    assert len(found) > 100


READING = """
from fedatlas import errors, open_atlas
from fedatlas.plan import places
print(*open_atlas("published/crosspaper").names("ours"))
try:
    places.check_clone(places.shipped_configuration())
except errors.FedatlasError as error:
    print(error)
"""


def test_it_works_in_an_empty_folder(site, tmp_path):
    planned = _call(site, tmp_path, "-m", "fedatlas", "run", "demo-tdcd", "--dry-run")
    assert str(site / "fedatlas/repository/Snakefile") in planned.stdout
    assert "choice of points, all runs" in planned.stdout
    assert {file.name for file in tmp_path.iterdir()} == {".snakemake"}
    read = _call(site, tmp_path, "-c", READING)
    assert read.stdout.startswith("crosspaper-a9a\n"), read.stderr
    assert "config: belongs to the installed package: clone the repository" in read.stdout
