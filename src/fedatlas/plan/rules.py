"""Parameters of rules for steps: command, outputs, arguments, time and memory.

Snakemake calls what is a function by the names of its parameters, among them wildcards and input.
"""

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Any

from snakemake.io import directory, report

from fedatlas.code import code_digest
from fedatlas.files import canonical_json
from fedatlas.plan.failures import failed_jobs, format_failures, repeat_options
from fedatlas.steps import STEPS, File

# The command of a step. Linux passes at most 128 KiB as one argument, so arguments pass through
# pipes. exec: Snakemake waits until the step, not a shell, has ended.
CALL = "fedatlas step {params.step} @<(printf %s {params.spec:q}) @<(printf %s {params.files:q})"
STEP = f"exec {CALL} > {{log:q}} 2>&1"
STEP_ALOUD = f"{CALL} 2>&1 | tee {{log:q}}"


def made(name: str) -> dict[str, Any]:
    """The files of a step, by argument, and their places in the report."""
    own = bool(STEPS[name].made_for)

    def path(file: File) -> Any:
        path = f"<results>/{file.path}"
        if file.folder:
            return directory(path)
        if not file.section:
            return path
        return report(
            path,
            caption="../workflow/report/step.rst",
            category=file.section,
            subcategory="{experiment}" if own else None,
            labels={"experiment": "{experiment}", "item": file.holds} if own else {},
        )

    return {
        argument: path(files) if isinstance(files, File) else [path(file) for file in files]
        for argument, files in STEPS[name].makes.items()
    }


def arguments(
    name: str,
    spec: Callable[[Any], Mapping[str, Any]] = lambda wildcards: {},
    *,
    code: Callable[[Any], Iterable[str]] = lambda wildcards: (),
    passes: Iterable[str] | None = None,
    notes: Callable[[Any, Any], str] = lambda wildcards, input: "",
    **more: Any,
) -> dict[str, Any]:
    """Params of a step: its arguments, and what its code means: jobs run again as these change.

    spec, code: arguments beside files, and modules beside those of the table. passes: which named
    inputs and outputs are arguments, if not all. notes: what the report says after the caption.
    more: arguments that decide nothing about what is made.
    """

    # Of what follows from files Snakemake keeps no record: they have their own.
    def untracked(wildcards: Any, input: Any, output: Any) -> str:
        files = {**dict(input.items()), **dict(output.items())}
        return _as_argument(
            {name: files[name] for name in (files if passes is None else passes)} | more
        )

    return {
        "step": name,
        "spec": lambda wildcards: _as_argument(spec(wildcards)),
        "code": lambda wildcards: f"code {code_digest(*STEPS[name].code, *code(wildcards))}",
        "files": untracked,
        "caption": lambda wildcards, input: STEPS[name].caption,
        "notes": notes,
    }


def _as_argument(values: Mapping[str, Any]) -> str:
    """Arguments as text. Snakemake's report puts it into a script, which "</script>" would end."""
    return canonical_json(values).replace("<", "\\u003c")


def needs(
    gigabytes: float,
    minutes: int,
    more: Callable[[Any, Any], float] = lambda wildcards, input: 0,
) -> dict[str, Any]:
    """Memory and time of a job, which grow at every attempt; more: MB that depend on its data."""
    return {
        "mem_mb": lambda wildcards, input, attempt: (
            ceil(1000 * gigabytes + more(wildcards, input)) * attempt
        ),
        "runtime": lambda wildcards, attempt: minutes * attempt,
    }


def describe_failures(workflow: Any, logs: Iterable[str]) -> str:
    """The jobs that failed, for the terminal, if any did; workflow, logs: Snakemake's own."""
    settings = workflow.config_settings
    options = repeat_options(
        settings.config,
        settings.configfiles,
        workflow.overwrite_workdir,
        workflow.main_snakefile,
        workflow.workdir_init,
    )
    failed = failed_jobs(workflow.scheduler.failed, logs)
    return "\n" + format_failures(failed, options) if failed else ""
