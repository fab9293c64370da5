"""Factors and offsets that people mix up, with their names: miles and kilometres, seconds and minutes, °C and °F."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conversion:
    """`value_in_first = factor * value_in_second + offset`.

    A `common` one is so frequent that a factor that was only estimated is taken for it where it fits; round numbers are
    common without a name. `also` are two more units that differ by the same.
    """

    factor: float
    first: str
    second: str
    offset: float = 0.0
    common: bool = False
    also: tuple[str, str] | None = None

    def inverse(self) -> Conversion:
        """The way back."""
        also = (self.also[1], self.also[0]) if self.also else None
        return Conversion(1.0 / self.factor, self.second, self.first, -self.offset / self.factor, self.common, also)

    @property
    def words(self) -> str:
        """For a sentence: `kilometres against miles`; empty for a round number."""
        pairs = [(self.first, self.second)] if self.first else []
        return ", or ".join(f"{one} against {other}" for one, other in [*pairs, *([self.also] if self.also else [])])


_FACTORS = (
    Conversion(1.609344, "kilometres", "miles", common=True),
    Conversion(1.852, "kilometres", "nautical miles"),
    Conversion(0.3048, "metres", "feet", common=True),
    Conversion(0.9144, "metres", "yards"),
    Conversion(2.54, "centimetres", "inches", common=True),
    Conversion(25.4, "millimetres", "inches"),
    Conversion(0.45359237, "kilograms", "pounds", common=True),
    Conversion(28.349523, "grams", "ounces"),
    Conversion(3.785411784, "litres", "gallons"),
    Conversion(3.6, "kilometres per hour", "metres per second", common=True),
    Conversion(0.44704, "metres per second", "miles per hour"),
    Conversion(0.514444, "metres per second", "knots"),
    Conversion(1.150779, "miles per hour", "knots"),
    Conversion(33.86389, "hectopascals", "inches of mercury"),
    Conversion(0.750061683, "millimetres of mercury", "hectopascals"),
    Conversion(math.pi / 30, "radians per second", "revolutions per minute"),
    Conversion(14.503774, "pounds per square inch", "bars"),
    Conversion(6.894757, "kilopascals", "pounds per square inch"),
    Conversion(7.500617, "millimetres of mercury", "kilopascals"),
    Conversion(10.763910, "square feet", "square metres"),
    Conversion(2.471054, "acres", "hectares"),
    Conversion(16.666667, "litres per minute", "cubic metres per hour"),
    Conversion(math.sqrt(2), "peaks", "effective values"),
    Conversion(4.184, "joules", "calories"),
    Conversion(180 / math.pi, "degrees", "radians", common=True),
    Conversion(7.0, "days", "weeks"),
    Conversion(12.0, "months", "years"),
    Conversion(30.4375, "days", "months", common=True),
    Conversion(365.25, "days", "years", common=True),
    Conversion(24.0, "hours", "days", common=True),
    Conversion(60.0, "minutes", "hours", common=True, also=("seconds", "minutes")),
    Conversion(1440.0, "minutes", "days"),
    Conversion(3600.0, "seconds", "hours", common=True),
    Conversion(86400.0, "seconds", "days", common=True),
    Conversion(100.0, "hundredths (per cent, cents)", "wholes (shares, dollars)", common=True),
    Conversion(
        1000.0,
        "thousandths (metres, grams)",
        "wholes (kilometres, kilograms)",
        common=True,
        also=("milliseconds", "seconds"),
    ),
    Conversion(1024.0, "bytes", "kibibytes"),
    Conversion(18.016, "milligrams per decilitre of glucose", "millimoles per litre"),
    Conversion(38.67, "milligrams per decilitre of cholesterol", "millimoles per litre"),
    Conversion(88.42, "micromoles per litre of creatinine", "milligrams per decilitre"),
    Conversion(1e6, "millionths", "wholes", common=True),
    Conversion(1e9, "billionths (nanoseconds)", "wholes (seconds)"),
)

_ROUND = tuple(Conversion(number, "", "", common=True) for number in (2.0, 3.0, 4.0, 5.0, 10.0))

AFFINE = (
    Conversion(1.8, "degrees Fahrenheit", "degrees Celsius", 32.0),
    Conversion(1.0, "kelvins", "degrees Celsius", 273.15),
    Conversion(1.8, "degrees Fahrenheit", "kelvins", -459.67),
)


def factors() -> list[Conversion]:
    """All pure factors, both ways."""
    return [way for one in _FACTORS for way in (one, one.inverse())]


def affine() -> list[Conversion]:
    """All conversions with an offset, both ways."""
    return [way for one in AFFINE for way in (one, one.inverse())]


def the_other_way(words: str) -> str:
    """What a conversion that has these words is called on the way back."""
    return next(one.inverse().words for one in [*factors(), *affine()] if one.words == words)


def nearest_factor(factor: float, tolerance: float) -> Conversion | None:
    """The named conversion closest to `factor`, or None if none lies within `tolerance` (relative)."""
    near = _within(factor, tolerance, factors())
    return near[0] if near else None


def named_factors() -> list[Conversion]:
    """All pure factors and round numbers, both ways."""
    return [*factors(), *(way for one in _ROUND for way in (one, one.inverse()))]


def only_common(
    factor: float, tolerance: float, largest: float = math.inf, possible: Callable[[float], bool] = lambda _: True
) -> Conversion | None:
    """The one common conversion or round number within `tolerance` (relative) that is `possible`; None for none or
    several, and where it lies in the last third of that while a rarer conversion lies in the first.

    Values of training, of which `largest` is the largest, are no angles where they go further than once around.
    """
    common = [one for one in named_factors() if one.common]
    around = {180 / math.pi: 2 * math.pi, math.pi / 180: 360.0}
    turns = [one for one in common if largest <= 1.01 * around.get(one.factor, math.inf)]
    near = [one for one in _within(factor, tolerance, turns) if possible(one.factor)]
    if len(near) != 1:
        return None
    far = not _within(factor, 2 / 3 * tolerance, near)
    return None if far and _within(factor, tolerance / 3, factors()) else near[0]


def only_rare(factor: float, tolerance: float) -> Conversion | None:
    """The one conversion or round number within `tolerance` (relative), where that is no common one; else None."""
    near = _within(factor, tolerance, named_factors())
    return near[0] if len(near) == 1 and not near[0].common else None


def _within(factor: float, tolerance: float, known: list[Conversion]) -> list[Conversion]:
    """Those within `tolerance`, the closest first."""
    if factor <= 0:
        return []
    gaps = [(abs(math.log(factor / one.factor)), place) for place, one in enumerate(known)]
    return [known[place] for gap, place in sorted(gaps) if gap <= tolerance]
