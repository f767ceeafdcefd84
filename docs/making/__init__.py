"""What the site is made with: pages that follow from the configuration and from the code."""


def folded(summary: str, content: str) -> str:
    """Markdown that a reader opens by its summary."""
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>"
