"""What the site is made with: pages that follow from the configuration and from the code."""


def counted(number: int, what: str) -> str:
    """So many of a thing, whose plural has an s.

    >>> counted(1, "claim"), counted(0, "claim")
    ('1 claim', '0 claims')
    """
    return f"{number} {what}{'s' * (number != 1)}"


def folded(summary: str, content: str) -> str:
    """Markdown that a reader opens by its summary."""
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>"
