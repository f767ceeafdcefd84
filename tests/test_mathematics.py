"""Formulas in plain Unicode become MathML in which every element has as many parts as it needs."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sphinx.errors import SphinxError

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from making import certificates, objectives  # noqa: E402
from making.mathematics import block, inline  # noqa: E402

from fedatlas.conform.explained import certificate  # noqa: E402

PARTS = {"msub": 2, "msup": 2, "msubsup": 3, "mfrac": 2, "munder": 2, "mover": 2, "munderover": 3}
EQUATIONS = {name: certificate(name)[1] for name in certificates.CASES} | certificates._EQUATIONS
BLOCKS = [
    part.split("```")[0]
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "papers").glob("*.md")]
    for part in page.read_text(encoding="utf-8").split("```{math}\n")[1:]
]


def shown(element: ElementTree.Element) -> str:
    """What a reader sees, with a/b and x_i of fractions and indices."""
    parts = [shown(child) for child in element]
    joint = {"mfrac": "/", "msub": "_", "msup": "^", "munder": "_"}.get(element.tag)
    return f"{{{joint.join(parts)}}}" if joint else (element.text or "") + "".join(parts)


@pytest.mark.parametrize("formulas", [*EQUATIONS.values(), *BLOCKS])
def test_every_formula_of_the_site_is_whole(formulas: str) -> None:
    page = ElementTree.fromstring(block(formulas))
    for element in page.iter():
        assert len(element) == PARTS.get(element.tag, len(element)), ElementTree.tostring(element)
    assert "_" not in "".join(page.itertext()) and "^" not in "".join(page.itertext())


@pytest.mark.parametrize(
    ("formula", "seen"),
    [
        ("η_g/S Σ_{i∈S} (y_i − x)", "{{η_g}/S}{∑_i∈S}({y_i}−x)"),
        ("(I + W)/2 xᵏ⁺¹", "{I+W/2}{x^k+1}"),
        ("∇f_i,B(y⁻)", "∇{f_i,B}({y^−})"),
        ("1/(S K) ‖g‖²", "{1/SK}{‖g‖^2}"),
        ("f* ≤ √(n_b/4)", "{f^∗}≤{{n_b}/4}"),
        ("τ_eff/τ_i, K times from x", "{{τ_eff}/{τ_i}},K\u00a0times\u00a0from\u00a0x"),
    ],
)
def test_indices_fractions_calls_and_words(formula: str, seen: str) -> None:
    assert shown(ElementTree.fromstring(block(formula))) == seen


def test_a_formula_within_a_line_keeps_its_slash() -> None:
    assert shown(ElementTree.fromstring(inline("(z − y)²/2"))) == "{(z−y)^2}/2"


@pytest.mark.parametrize("formula", ["(x + y", "x_", "‖x"])
def test_what_is_not_closed_fails_the_build(formula: str) -> None:
    with pytest.raises(SphinxError, match="formula"):
        block(formula)


def test_every_method_has_its_equations() -> None:
    assert set(certificates.ELSEWHERE) == set(certificates._EQUATIONS)
    assert all(EQUATIONS.values()) and objectives.page().count("{math}`") > 20
