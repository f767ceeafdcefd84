"""The colours of methods in figures, explorer and gallery: one table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

#: Okabe and Ito's palette, for any colour vision and print; then Tol's muted colours.
PALETTE = {
    **{"blue": "#0072B2", "vermilion": "#D55E00", "green": "#009E73", "pink": "#CC79A7"},
    **{"orange": "#E69F00", "sky": "#56B4E9", "black": "#000000", "wine": "#882255"},
    **{"olive": "#999933", "grey": "#999999", "indigo": "#332288", "forest": "#117733"},
    **{"rose": "#CC6677", "teal": "#44AA99", "brown": "#661100", "sand": "#DDCC77"},
}
#: Colour → its methods, which are hardly ever compared with each other. Others take what is free.
_METHODS = {
    "blue": "fedpage fmgda extra dp_local_sgd",
    "vermilion": "fedavg local_sgda gaussian_gradient_descent afsvrg_vp",
    "green": "scaffold momentum_local_sgda binomial_gradient_descent",
    "pink": "vfb2_sgd codasca fedlin fedadagrad sgp",
    "orange": "tdcd dp_fedavg scaffnew ternary_gradient_descent",
    "sky": "vfb2_saga mifa coda quantised_gradient_descent fedadam gt_sarah",
    "black": "pooled feddane amplified_fedavg",
    "wine": "dp_gradient_tracking feddyn fedasync",
    "olive": "diana growing_samples_descent fednova nids",
    "indigo": "vfb2_svrg mime online_gradient_descent fedbuff",
    "forest": "ef21 fedyogi power_of_choice",
    "rose": "fedavgm marina fedmid",
    "teal": "coda_plus fedprox dasha fedpaq choco_sgd",
    "brown": "local_dsgd ef14 cyclic fedsam fed_dual_avg",
}
#: Method → the name of its colour.
METHODS = {method: name for name, methods in _METHODS.items() for method in methods.split()}
# Of many variants of one method, from dark to light, as they print in grey.
SEQUENCE = (
    *("#0d0887", "#48039f", "#7501a8", "#9e199d"),
    *("#c13b82", "#db5c68", "#f07f4f", "#fca636"),
)
# Of few: shares of black or of white, by whether the colour is light.
_SHADES = {True: ((0, "#000000"), (0.45, "#000000"), (0.5, "#ffffff"))}
_SHADES[False] = ((0, "#ffffff"), (0.5, "#ffffff"), (0.75, "#ffffff"))
_FEW, _LIGHT = 3, 0.3
_NEAR = 50  # from one colour to another that looks alike, of 255 in each channel


class Look(NamedTuple):
    """A colour, and how often it was used before in the same figure."""

    colour: str
    again: int = 0


def looks(methods: Mapping[str, str]) -> dict[str, Look]:
    """Title → its look. methods: title → the method that it is of, in the order of the figure.

    A method has its colour in every figure. Three variants of it, at most, are shades; more are a
    sequence from dark to light.
    """
    variants: dict[str, list[str]] = {}
    for title, method in methods.items():
        variants.setdefault(method, []).append(title)
    found: dict[str, Look] = {}
    own = _of_table(variants)
    for method, colour in own.items():
        found |= _shades(variants[method], Look(colour))
    free = [colour for colour in PALETTE.values() if colour not in own.values()]
    used = (Look(colour, again) for again in count(1) for colour in PALETTE.values())
    for method in variants:
        if method in own:
            continue
        # One that no shade is close to, if there is any.
        free.sort(key=lambda colour: any(_is_near(colour, look.colour) for look in found.values()))
        found |= _shades(variants[method], Look(free.pop(0)) if free else next(used))
    return {title: found[title] for title in methods}


def _shades(titles: Sequence[str], own: Look) -> dict[str, Look]:
    """Looks of a method's variants."""
    if len(titles) > _FEW:
        return _sequence(titles)
    shades = _SHADES[_is_light(own.colour)]
    return {
        title: Look(mixed(own.colour, other, share), own.again)
        for title, (share, other) in zip(titles, shades, strict=False)
    }


def colours(labels: Iterable[str]) -> dict[str, str]:
    """Label → colour, of what is no method: a sequence from dark to light."""
    return {label: look.colour for label, look in _sequence(list(dict.fromkeys(labels))).items()}


def _sequence(titles: Sequence[str]) -> dict[str, Look]:
    steps, most = len(SEQUENCE) - 1, len(titles) - 1
    if most > steps:
        return {
            title: Look(SEQUENCE[place % (steps + 1)], place // (steps + 1))
            for place, title in enumerate(titles)
        }
    return {
        title: Look(SEQUENCE[round(place * steps / max(most, 1))])
        for place, title in enumerate(titles)
    }


def _is_light(colour: str) -> bool:
    red, green, blue = (channel / 255 for channel in channels(colour))
    return 0.299 * red + 0.587 * green + 0.114 * blue > _LIGHT


def _is_near(colour: str, other: str) -> bool:
    return math.dist(channels(colour), channels(other)) < _NEAR


def _of_table(methods: Iterable[str]) -> dict[str, str]:
    """Method → its colour of the table, if no method before it has taken that."""
    found: dict[str, str] = {}
    for method in methods:
        if (name := METHODS.get(method)) and PALETTE[name] not in found.values():
            found[method] = PALETTE[name]
    return found


def channels(colour: str) -> tuple[int, ...]:
    """Red, green and blue of #rrggbb, each from 0 to 255."""
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def mixed(colour: str, other: str, share: float) -> str:
    """A colour with a share of another, both as #rrggbb."""
    if not share:
        return colour
    pairs = zip(channels(colour), channels(other), strict=True)
    return "#" + "".join(f"{round((1 - share) * own + share * more):02x}" for own, more in pairs)
