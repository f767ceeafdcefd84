"""What pyproject.toml cannot say: a wheel brings the files of the repository that are read."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# `fedatlas.plan.places.repository` says where they are; `fedatlas conform` shows certificates.
PARTS = ("Snakefile", "rules", "workflow", "profiles", "config", "published", "tests/certificates")


class BuildWithRepository(build_py):
    """Puts them into the package; an editable install reads them where they are."""

    def get_source_files(self) -> list[str]:
        """Files of an sdist."""
        return [*super().get_source_files(), *map(str, _files())]

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib, "fedatlas", "repository")
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier build
        for file in _files():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / file)


def _files() -> list[Path]:
    found = [file for part in PARTS for file in (Path(part), *sorted(Path(part).rglob("*")))]
    return [file for file in found if file.is_file() and "__pycache__" not in file.parts]


setup(cmdclass={"build_py": BuildWithRepository})
