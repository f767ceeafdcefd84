"""Others' text: shown as it is written, on terminals, in errors, logs and the report."""

import logging
import re
import unicodedata

import pytest
from docutils.core import publish_doctree
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.rcsetup import validate_backend
from typer.testing import CliRunner

from experiment_files import config_folder
from fedatlas import cli
from fedatlas.errors import FedatlasError
from fedatlas.plain_text import printable, rest, say
from fedatlas.plan import rules
from workflow_copy import EXPERIMENT, ROOT

HIDDEN = "\x1b]0;other title\x07 \x9b31m \u202ebackwards \r\x08"
ANYTHING = st.text(
    st.one_of(st.sampled_from("\\`*_|:.<>+-=#[]{}()~^$'\" \n\t1a\x1b"), st.characters())
)


def commands_a_terminal(text):
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t"]


@given(st.text())
@example(HIDDEN)
def test_nothing_printed_commands_a_terminal_and_all_else_stays(text):
    shown = printable(text)
    assert not commands_a_terminal(shown) and len(shown) == len(text)
    assert all(now in (was, "\ufffd") for was, now in zip(text, shown, strict=True))
    assert printable("Größe 1\u00a0µs: ε ≤ 10⁻³, 模型") == "Größe 1\u00a0µs: ε ≤ 10⁻³, 模型"


@settings(deadline=None)
@given(ANYTHING)
@example(".. include:: /etc/hostname\n\n.. raw:: html\n\n   <b>b</b>")
@example("`a <http://x.y>`_ |s| a_ __ [1]_ *i* ``c`` :math:`x`")
def test_text_is_no_markup_in_restructured_text(text):
    (paragraph,) = publish_doctree(f"It: {rest(text)}", settings_overrides={"report_level": 5})
    words = " ".join(printable(text).split())
    assert paragraph.tagname == "paragraph" and paragraph.astext() == f"It: {words}".strip()
    assert [child.tagname for child in paragraph] == ["#text"]


def test_errors_logs_and_commands_show_it(tmp_path, capsys, monkeypatch):
    assert not commands_a_terminal(str(FedatlasError(f"key 'title', value '{HIDDEN}'")))
    say(HIDDEN)
    say(HIDDEN, to_errors=True)
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s", (HIDDEN,), None)
    told = [*capsys.readouterr(), cli.LogLines("%(message)s").format(record)]
    small = EXPERIMENT.replace("A small experiment", r"\e]0;t\a\x9b31m")
    config = config_folder(tmp_path / "config", small=small)
    for command in ("list", "demo-small"), ("spec", "demo-small"):
        outcome = CliRunner().invoke(cli.app, [*command, "--config", str(config)])
        assert outcome.exit_code == 0 and "0;t" in outcome.stdout
        told.append(outcome.stdout)
    assert not any(map(commands_a_terminal, told))


def test_a_notebooks_way_to_draw_is_none_for_files(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "module://of_another_environment")
    monkeypatch.setattr(cli, "app", lambda: None)
    for undone in ("signal", "freeze", "set_threshold"):
        monkeypatch.setattr(cli.signal if undone == "signal" else cli.gc, undone, lambda *_: None)
    cli.main()
    validate_backend(cli.os.environ["MPLBACKEND"])


@pytest.mark.parametrize("command", [rules.STEP, rules.STEP_ALOUD])
def test_rules_quote_every_word_that_a_shell_reads(command):
    placed = re.findall(r"\{[^{}]*\}", command)
    # Names of steps are ours.
    assert [each for each in placed if not each.endswith(":q}")] == ["{params.step}"]


@pytest.mark.parametrize("file", sorted((ROOT / "rules").glob("*.smk")), ids=lambda file: file.name)
def test_rules_run_nothing_but_steps(file):
    commands = re.findall(r"^ *shell:\s*(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(commands) <= {"STEP", "STEP_ALOUD"}
