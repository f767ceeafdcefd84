"""Text for pdfLaTeX, which supports neither Greek letters nor superscripts."""

import re
import unicodedata

from fedatlas.plain_text import latex

_SIGNS = {"∇": r"$\nabla$", "‖": r"$\|$", "∞": r"$\infty$", "−": "--"}


def text(given: str) -> str:
    """The text on one line, shown as written."""
    return "".join(map(_sign, latex(given)))


def _sign(sign: str) -> str:
    way, _, code = unicodedata.decomposition(sign).partition(" ")
    if way in ("<super>", "<sub>"):
        return rf"\text{way[1:-1]}script{{{_sign(chr(int(code, 16)))}}}"
    greek = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(sign, ""))
    if greek:
        name = greek[2].replace("LAMDA", "LAMBDA")
        return f"$\\{name.lower() if greek[1] == 'SMALL' else name.title()}$"
    return _SIGNS.get(sign, sign)
