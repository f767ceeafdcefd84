"""Formulas as code and docstrings have them, typeset: plain Unicode to MathML, which browsers draw.

A formula stands once, readable in a terminal: `x ← x + η_g/S Σ_{i∈S} (y_i − x)`. On the site it is
MathML, without LaTeX, a script or a network. The role `{math}` and fenced blocks of that name take
it.

- `_ij` and `_{i∈S}` are subscripts, as are ₁₂; `^k`, `^(1/3)` and `^{k+1}` superscripts, as are ⁺².
  Indices that a comma without a space joins are one: `f_i,B(y)`.
- `a/b` is a fraction in blocks, of all that stands beside the slash without a space, less the
  brackets around the whole of it.
- Words are text, but names of functions before a bracket; other letters in a row are a product.
- Two spaces part formulas of a line, four at its start indent it.
"""

import re
from collections.abc import Callable
from html import escape
from unicodedata import normalize

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import SphinxError

_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵏʳˢᵀᵗᶻ*", "0123456789+−krs⊤tz∗", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_CLOSING = {"(": ")", "[": "]", "{": "}", "‖": "‖", "|": "|", "⌈": "⌉", "⌊": "⌋"}
_LARGE = {"Σ": "∑", "Π": "∏"}
_HALVES = {"½": ("1", "2"), "¼": ("1", "4")}
_ACCENTS = {"\u0302": "ˆ", "\u0303": "˜", "\u0304": "¯", "\u0306": "˘"}
_FUNCTIONS = ("log", "exp", "min", "max")
#: What has a space after it already: a word, a comma.
_SPACED = re.compile(r"(?:(?<![\w])[A-Za-z]{2,}(?:['’]s)?|[,;:]) $")
_TOKEN = re.compile(
    r"""(?P<gap>[ ]{2,}) | (?P<space>[ ]) | (?P<number>[0-9]+(?:\.[0-9]+)?)
    | (?P<word>(?:[A-Za-z]{3,}|as|at|by|if|in|is|it|of|on|or|to)(?![A-Za-z])(?:['’]s)?)
    | (?P<sub>_) | (?P<sup>\^) | (?P<raised>[⁰¹²³⁴-⁹⁺⁻ᵏʳˢᵀᵗᶻ*]+) | (?P<lowered>[₀-₉]+)
    | (?P<open>[(\[{⌈⌊]) | (?P<close>[)\]}⌉⌋]) | (?P<bar>[‖|])
    | (?P<symbol>[^\W\d_][\u0300-\u036f]* | [∇∞½¼𝒩]) | (?P<other>.)""",
    re.VERBOSE,
)
_INDEX = re.compile(r"[^\W_⁰¹²³⁴-⁹ᵏʳˢᵀᵗᶻ]+(?:,[^\W_⁰¹²³⁴-⁹ᵏʳˢᵀᵗᶻ]+)*|[∞*∗]")


class _Formula:
    """Reads one line of Unicode from left to right; every method returns MathML."""

    def __init__(self, text: str, *, block: bool) -> None:
        self.text, self.block, self.at = text, block, 0

    def row(self, until: str = "") -> str:
        """Everything up to a closing character, which it passes."""
        parts: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != until:
            parts.append(self._fraction())
        if until:
            if self.at == len(self.text):
                raise SphinxError(f"a formula lacks {until!r}: {self.text}")
            self.at += 1
        return _row(parts)

    def _fraction(self) -> str:
        above, bare = self._product()
        while self.block and above and self.text.startswith("/", self.at):
            self.at += 1
            above = bare = f"<mfrac>{bare}{self._product()[1]}</mfrac>"
        return above

    def _product(self) -> tuple[str, str]:
        """What stands side by side without a space, and the same without brackets around it."""
        whole, bare = self._indexed()
        while (found := _TOKEN.match(self.text, self.at)) and self._joins(found):
            whole = bare = f"<mrow>{whole}{self._indexed()[0]}</mrow>"
        return whole, bare

    def _joins(self, found: re.Match[str]) -> bool:
        """Whether a symbol, number or bracket goes on with what stands before it."""
        before = self.text[self.at - 1 : self.at]
        if found[0] in _LARGE or not (before.isalnum() or before in ")_*⁺⁻}"):
            return False
        return found.lastgroup in ("symbol", "number", "open") or found[0] == "√"

    def _indexed(self) -> tuple[str, str]:
        """One symbol with its indices and arguments, and the same without brackets around it."""
        whole, bare, large = self._atom()
        start = self.at
        scripted = self._scripted(whole, large)
        while whole and self._called:
            self.at += 1
            scripted = self._scripted(f"<mrow>{scripted}{_fenced('(', self.row(')'))}</mrow>")
        return scripted, bare if self.at == start else scripted

    def _scripted(self, base: str, large: bool = False) -> str:
        below = above = ""
        while base and (found := _TOKEN.match(self.text, self.at)):
            kind = found.lastgroup
            if kind not in ("sub", "sup", "raised", "lowered"):
                break
            self.at = found.end()
            if kind in ("sub", "sup"):
                script = self._index()
            else:
                script = "".join(_mathml((_LOWERED | _RAISED)[each]) for each in found[0])
            if kind in ("sub", "lowered"):
                below += script
            else:
                above += script
        if not below and not above:
            return base
        names = ("munder", "mover", "munderover") if large else ("msub", "msup", "msubsup")
        rows = [f"<mrow>{each}</mrow>" for each in (below, above) if each]
        name = names[2 if len(rows) == 2 else 0 if below else 1]
        return f"<{name}>{base}{''.join(rows)}</{name}>"

    @property
    def _called(self) -> bool:
        """Whether a bracket follows at once, as that of a function's argument does."""
        before = self.text[self.at - 1 : self.at]
        return self.text.startswith("(", self.at) and (before.isalnum() or before in "₀₁₂₃⁺⁻_}")

    def _index(self) -> str:
        """What follows _ or ^: one run of letters, or what brackets hold."""
        if self.text[self.at : self.at + 1] in ("{", "("):
            closing = _CLOSING[self.text[self.at]]
            self.at += 1
            inner, self.block = self.block, False
            held = self.row(closing)
            self.block = inner
            return held
        found = _INDEX.match(self.text, self.at)
        if found is None:
            raise SphinxError(f"a formula has no index after _ or ^: {self.text}")
        self.at = found.end()
        run = found[0]
        if re.fullmatch(r"[a-z]{3,}", run):
            return f"<mtext>{run}</mtext>"
        return _row([_mathml(_LOWERED.get(each, each)) for each in run])

    def _atom(self) -> tuple[str, str, bool]:
        """A symbol, number, word or bracket: MathML, the same without brackets, whether a sum."""
        found = _TOKEN.match(self.text, self.at)
        assert found is not None
        kind, text = found.lastgroup, found[0]
        self.at = found.end()
        if kind == "gap":
            return '<mspace width="2em"/>', "", False
        if kind == "space":
            return "", "", False
        if kind in ("open", "bar"):
            inside = self.row(_CLOSING[text])
            whole = _fenced(text, inside)
            return whole, inside if text in "({" else whole, False
        if text == "√":
            _, inside = self._indexed()
            return (root := f"<msqrt>{inside}</msqrt>"), root, False
        if text == "∇":
            slope = self._scripted("<mo>∇</mo>")
            slope = f"<mrow>{slope}{self._indexed()[0]}</mrow>"
            return slope, slope, False
        if text in _HALVES:
            above, below = _HALVES[text]
            half = f"<mfrac><mn>{above}</mn><mn>{below}</mn></mfrac>"
            return half, half, False
        if kind == "word":
            return (word := self._word(text)), word, False
        one = _mathml(text)
        if text in ",;:" and self.text.startswith(" ", self.at):
            one += '<mspace width="0.25em"/>'
        return one, one, text in _LARGE

    def _word(self, word: str) -> str:
        """A function's name, or text, which keeps the spaces beside it."""
        before = self.text[: self.at - len(word)]
        if self.text.startswith(("(", "_", "^"), self.at) or word in _FUNCTIONS:
            gap = '<mspace width="0.17em"/>' if before.endswith(" ") else ""
            return f"<mrow>{gap}<mi>{word}</mi></mrow>"
        first = "\u00a0" if before.endswith(" ") and not _SPACED.search(before) else ""
        last = "\u00a0" if self.text.startswith(" ", self.at) else ""
        return f"<mtext>{first}{escape(word)}{last}</mtext>"


def _fenced(opening: str, inside: str) -> str:
    """In brackets, which grow with fractions and sums only."""
    grows = str("<mfrac" in inside or "<munder" in inside).lower()
    opened, closed = (
        f'<mo stretchy="{grows}" lspace="0" rspace="0">{each}</mo>'
        for each in (opening, _CLOSING[opening])
    )
    return f"<mrow>{opened}{inside}{closed}</mrow>"


def _row(parts: list[str]) -> str:
    kept = [part for part in parts if part]
    return kept[0] if len(kept) == 1 else f"<mrow>{''.join(kept)}</mrow>"


def _mathml(one: str) -> str:
    """A single character, or a number, by what it is."""
    if one[0].isdigit():
        return f"<mn>{one}</mn>"
    if one in _LARGE:
        return f"<mo>{_LARGE[one]}</mo>"
    letter, *accents = normalize("NFD", one) if one[0].isalpha() else one
    if accents:
        above = f'<mo stretchy="false">{_ACCENTS[accents[0]]}</mo>'
        return f'<mover accent="true"><mi>{letter}</mi>{above}</mover>'
    if one[0].isalpha() or one == "∞":
        return f"<mi>{one}</mi>"
    return f"<mo>{escape({'*': '∗', '-': '−', '~': '∼'}.get(one, one))}</mo>"


def inline(formula: str) -> str:
    """MathML of a formula within a sentence. SphinxError: a bracket or index is missing."""
    return f"<math>{_Formula(formula.strip(), block=False).row()}</math>"


def block(formulas: str) -> str:
    """MathML of lines of formulas, one below the other."""
    rows = []
    for line in formulas.strip("\n").splitlines():
        indent = (len(line) - len(line.lstrip())) / 2
        shift = f'<mspace width="{indent:g}em"/>' if indent else ""
        row = _Formula(line.strip(), block=True).row()
        rows.append(f"<mtr><mtd>{shift}{row}</mtd></mtr>")
    table = f'<mtable displaystyle="true">{"".join(rows)}</mtable>'
    return f'<div class="formulas"><math>{table}</math></div>'


def _visitor(render: Callable[[str], str]) -> Callable[..., None]:
    def visit(translator: nodes.NodeVisitor, node: nodes.Element) -> None:
        translator.body.append(render(node.astext()))  # type: ignore[attr-defined]
        raise nodes.SkipNode

    return visit


def setup(app: Sphinx) -> dict[str, bool]:
    """Register as the site's way to draw formulas."""
    app.add_html_math_renderer("unicode", (_visitor(inline), None), (_visitor(block), None))
    return {"parallel_read_safe": True}
