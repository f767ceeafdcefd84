"""The table of steps: functions that exist and take what rules hand them, modules that exist."""

import re
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest

from fedatlas.code import code_digest
from fedatlas.steps import STEPS

RULES = "".join(file.read_text() for file in Path("rules").glob("*.smk"))


def function_of(name):
    module, _, function = STEPS[name].function.partition(":")
    return getattr(import_module(module), function)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_has_a_function_that_takes_what_it_makes_and_code_that_is_there(name):
    step = STEPS[name]
    passed = {"write_explorer": {"output"}, "train_run": set()}.get(name, set(step.makes))
    assert passed <= set(get_type_hints(function_of(name)))
    assert code_digest(*step.code)


def test_every_step_has_a_rule_and_every_rule_a_step():
    by_hand = {"train_alone"}
    named = re.findall(r'(?:made\(|^    )"(\w+)"(?:\)|: {)', RULES, re.MULTILINE)
    assert set(named) | by_hand == set(STEPS)


def test_what_the_report_shows_has_a_caption():
    shown = {name for name, step in STEPS.items() if any(file.section for file in step.files())}
    assert shown == {name for name, step in STEPS.items() if step.caption}
