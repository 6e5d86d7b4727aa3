"""Fill pages between marks, which are comments: `<!-- name: made by docs/study.py -->` and `<!-- name: end -->`."""

from __future__ import annotations

from collections.abc import Mapping


def fill(page: str, program: str, parts: Mapping[str, str]) -> str:
    """The page with texts between the marks of a program. Raises `ValueError` if a text has no place in it."""
    for name, part in parts.items():
        begin, end = f"<!-- {name}: made by docs/{program} -->", f"<!-- {name}: end -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"the page must have {begin} and {end} once each (the text goes between them)")
        before, rest = page.split(begin)
        inside = before[before.rfind("\n") + 1 :]  # a part of a note is as far in as the note
        made = "\n".join(f"{inside}{line}".rstrip() for line in part.splitlines())
        page = f"{before}{begin}\n\n{made}\n\n{inside}{end}{rest.split(end)[1]}"
    return page
