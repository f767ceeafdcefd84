"""Files that users add to the package, such as methods: importing them, and where they fail."""

import importlib
import traceback
from pathlib import Path
from types import ModuleType

from fedatlas.errors import FedatlasError
from fedatlas.projects import CODE, code_folders

_PACKAGE = Path(__file__).parent
# Folders of the package in which a file adds a method, a network, a kind of claims or a format.
_FOLDERS = ("algorithms", "architectures", "evaluation/claims", "data/formats")


def import_extension(name: str) -> ModuleType:
    """The module of that full name; FedatlasError names the file and the line that fails."""
    try:
        return importlib.import_module(name)
    except FedatlasError:
        raise
    except SyntaxError as error:
        raise FedatlasError(format_syntax_error(error)) from error
    except Exception as error:
        raise FedatlasError(describe_place(error) or f"{name}: {_in_short(error)}") from error


def format_syntax_error(error: SyntaxError) -> str:
    """File, line and text of a syntax error."""
    shown = f": {error.text.strip()}" if error.text else ""
    return f"{relative_path(str(error.filename))}, line {error.lineno}: {error.msg}{shown}"


def describe_place(error: BaseException) -> str | None:
    """Where in a file that users add an exception began, with what it says; None if in none.

    That is the innermost such place: what fails deeper, in a library, was asked for there.
    """
    folders = [_PACKAGE / folder for folder in _FOLDERS]
    folders += [Path(folder) for kind in CODE for folder in code_folders(kind)]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).parent in folders and Path(frame.filename).stem != "__init__"
    ]
    if not frames:
        return None
    last = frames[-1]
    place = f"{relative_path(last.filename)}, line {last.lineno}, in {last.name}"
    return f"{place}: {_in_short(error)}\n    {last.line}"


def _in_short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def relative_path(file: Path | str) -> str:
    """A path as short as it can be written here."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return str(file)
