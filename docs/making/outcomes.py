"""The README's picture of how the papers' claims came out: `python -m making.outcomes`."""

from collections import Counter
from html import escape
from pathlib import Path

from fedatlas.evaluation.evidence import MARKS
from fedatlas.files import write_text
from fedatlas.pages.repository import count_in_two, read_kept, sentence_outcomes
from fedatlas.plan.build import build_plan
from fedatlas.schema.papers import load_coverage

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/images/outcomes.svg"
#: Fill and text by outcome; signs tell outcomes apart without colour.
COLOURS = {
    "reproduced": ("#009e73", "white"),
    "compatible": ("#66c2a5", "black"),
    "smaller than claimed": ("#e3c16f", "black"),
    "no difference": ("#f0e442", "black"),
    "contradicted": ("#d55e00", "white"),
    "incompatible": ("#e69f6b", "black"),
    "undecided": ("#b3b3b3", "black"),
    "not testable": ("#d9d9d9", "black"),
    "not covered": ("#eeeeee", "black"),
}
WIDTH, LABEL, BAR, STEP = 900, 250, 22, 30
_UNIT = 25  # of one claim


def picture(found: dict[str, tuple[Counter[str], Counter[str]]]) -> str:
    """Two stacked bars for each paper: on its own setting, and in others."""
    lines, y = [], 44
    shown = {outcome for both in found.values() for own in both for outcome in own}
    x = 8
    for outcome, (fill, _) in COLOURS.items():
        if outcome in shown:
            lines.append(f'<rect x="{x}" y="8" width="14" height="14" fill="{fill}"/>')
            lines.append(f'<text x="{x + 19}" y="20">{MARKS[outcome]} {outcome}</text>')
            x += 45 + 7 * len(outcome)
    for paper, both in found.items():
        for place, own in enumerate(both):
            setting = "in another setting" if place else "in the paper's setting"
            name = f'<tspan font-weight="bold">{escape(paper)}</tspan>, ' if not place else ""
            where = f'x="{LABEL - 10}" y="{y + 16}" text-anchor="end"'
            lines.append(f"<text {where}>{name}{setting}</text>")
            lines += _bar(own, y)
            y += STEP - 4 * (not place)
        y += 10
    words = "Outcomes of each paper's claims, in the paper's setting and in others"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}" role="img" aria-label="{words}" font-family="sans-serif" font-size="13">\n'
        f'<title>{words}</title>\n<rect width="{WIDTH}" height="{y}" fill="white"/>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


def _bar(own: Counter[str], y: int) -> list[str]:
    lines, x = [], LABEL
    for outcome, (fill, ink) in COLOURS.items():
        if count := own[outcome]:
            width = count * _UNIT
            lines.append(
                f'<g><title>{count} {outcome}</title><rect x="{x}" y="{y}" width="{width - 1}" '
                f'height="{BAR}" fill="{fill}"/><text x="{x + width / 2:g}" y="{y + 16}" '
                f'text-anchor="middle" fill="{ink}">{count} {MARKS[outcome]}</text></g>'
            )
            x += width
    return lines or [f'<text x="{x}" y="{y + 16}" fill="#555">none judged</text>']


def counts() -> dict[str, tuple[Counter[str], Counter[str]]]:
    """Outcomes by paper, from config/verdicts.csv and config/coverage.yaml."""
    plan = build_plan(ROOT / "config")
    covered = load_coverage(ROOT / "config/coverage.yaml", plan.papers, plan.experiments)
    kept = read_kept(ROOT / "config/verdicts.csv")
    return {
        plan.papers[key].name: count_in_two(
            sentence_outcomes(kept, plan.experiments, plan.sentences[key], coverage.settings)
        )
        for key, coverage in covered.items()
    }


def main() -> None:
    """Write the picture anew."""
    write_text(PICTURE, picture(counts()))


if __name__ == "__main__":
    main()
