"""Parts of pages that are made anew, between two lines that mark them."""


def filled(page: str, first: str, last: str, made: str) -> str:
    """The page with this text between its marks; ValueError where one is missing."""
    begin = page.index(first) + len(first)
    return f"{page[:begin]}\n{made}\n{page[page.index(last, begin) :]}"
