"""Measured times as a law: how single ones vary about their average, in a list that stays short."""

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

#: As many equally likely times stand for any number of measured ones.
MOST_TIMES = 512
#: Kinds of times that the law is about, as `validate-parties` names them; others are left out.
COMPUTED = ("share", "update")


def relative_times(groups: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """Times over the average of their group, all groups together, in ascending order.

    More than `MOST_TIMES` become so many equally likely quantiles. ValueError if there are none, or
    one is not positive.
    """
    found = sorted(time / (math.fsum(group) / len(group)) for group in groups for time in group)
    if not found:
        raise ValueError("there are no measured times")
    if not (found[0] > 0 and math.isfinite(found[-1])):
        raise ValueError("measured times must be positive and finite")
    kept = min(len(found), MOST_TIMES)
    places = ((2 * number + 1) * len(found) // (2 * kept) for number in range(kept))
    return tuple(float(f"{found[place]:.6g}") for place in places)


def times_in(path: Path) -> tuple[float, ...]:
    """`relative_times` of a CSV file with a column `seconds`.

    Rows of one `kind` and `party`, where there are such columns, are a group; of kinds only
    `COMPUTED` count. ValueError for a file that cannot be read, or has no such times.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                kind = row.get("kind") or ""
                if not kind or kind in COMPUTED:
                    groups.setdefault((kind, row.get("party") or ""), []).append(
                        float(row["seconds"])
                    )
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (KeyError, TypeError, UnicodeDecodeError, ValueError, csv.Error):
        raise ValueError(f"{path}: must be CSV with a column 'seconds' of numbers") from None
    try:
        return relative_times(groups.values())
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"{path}: {error}") from None
