"""Factors and offsets that people mix up, with their names: miles and kilometres, seconds and minutes, °C and °F.

`cause` asks here whether a factor or an affine change that it found has a name; it finds those without one as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conversion:
    """`value_in_first = factor * value_in_second + offset`."""

    factor: float
    first: str
    second: str
    offset: float = 0.0

    def inverse(self) -> Conversion:
        """The way back."""
        return Conversion(1.0 / self.factor, self.second, self.first, -self.offset / self.factor)

    @property
    def words(self) -> str:
        """For a sentence: `kilometres against miles`."""
        return f"{self.first} against {self.second}"


_FACTORS = (
    Conversion(1.609344, "kilometres", "miles"),
    Conversion(1.852, "kilometres", "nautical miles"),
    Conversion(0.3048, "metres", "feet"),
    Conversion(0.9144, "metres", "yards"),
    Conversion(2.54, "centimetres", "inches"),
    Conversion(25.4, "millimetres", "inches"),
    Conversion(0.45359237, "kilograms", "pounds"),
    Conversion(28.349523, "grams", "ounces"),
    Conversion(3.785411784, "litres", "gallons"),
    Conversion(3.6, "kilometres per hour", "metres per second"),
    Conversion(0.44704, "metres per second", "miles per hour"),
    Conversion(0.514444, "metres per second", "knots"),
    Conversion(1.150779, "miles per hour", "knots"),
    Conversion(33.86389, "hectopascals", "inches of mercury"),
    Conversion(4.184, "joules", "calories"),
    Conversion(180 / math.pi, "degrees", "radians"),
    Conversion(7.0, "days", "weeks"),
    Conversion(12.0, "months", "years"),
    Conversion(24.0, "hours", "days"),
    Conversion(60.0, "minutes", "hours, or seconds against minutes"),
    Conversion(1440.0, "minutes", "days"),
    Conversion(3600.0, "seconds", "hours"),
    Conversion(86400.0, "seconds", "days"),
    Conversion(100.0, "hundredths", "wholes, such as per cent against shares or cents against dollars"),
    Conversion(1000.0, "thousandths", "wholes, such as metres against kilometres"),
    Conversion(1024.0, "bytes", "kibibytes"),
    Conversion(1e6, "millionths", "wholes"),
    Conversion(1e9, "billionths", "wholes, such as nanoseconds against seconds"),
)

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


def nearest_factor(factor: float, tolerance: float) -> Conversion | None:
    """The named conversion closest to `factor`, or None if none lies within `tolerance` (relative)."""
    if factor <= 0:
        return None
    distance, best = min(((abs(math.log(factor / one.factor)), one) for one in factors()), key=lambda pair: pair[0])
    return best if distance <= tolerance else None
