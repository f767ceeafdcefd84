"""Which commit of a repository a folder was published from."""

import subprocess
from pathlib import Path

from fedatlas.atlas.checksums import NAME as SUMS

# What decides results, where it is not in the repository yet.
_CODE = (".py", ".yaml", ".yml", ".smk")


def revision(folder: Path) -> str:
    """The commit of the repository in which a folder lies, and whether it was changed since.

    Empty if it lies in none. Changes of published folders do not count: they hold no code, and
    publishing writes them.
    """
    commit = _git(folder, "rev-parse", "HEAD").strip()
    if not commit:
        return ""
    top = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
    entries = _git(folder, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
    changed = any(
        (state != "??" or name.endswith(_CODE)) and not _is_published(top, Path(name))
        for state, name in ((entry[:2], entry[3:]) for entry in entries.split("\0") if entry)
    )
    return f"{commit} and uncommitted changes" if changed else commit


def _is_published(top: Path, name: Path) -> bool:
    return any((top / above / SUMS).is_file() for above in name.parents[:-1])


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; empty where it fails, such as outside of a repository, or is missing."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout
