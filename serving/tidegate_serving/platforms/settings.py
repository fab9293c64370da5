"""A platform's settings, `[platforms.NAME]` of the engine's config: text by key, read as numbers, shares and flags."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidegate_serving.contract.errors import InvalidInput

_FLAGS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


class Settings:
    """Text by key. InvalidInput for a key that the platform does not know, or a value that is not of its type."""

    def __init__(self, platform: str, values: Mapping[str, str], known: Collection[str]) -> None:
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise InvalidInput(f"platform {platform!r} has no setting {unknown[0]!r}: use {', '.join(sorted(known))}")
        self._platform = platform
        self._values = dict(values)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str, default: str) -> str:
        """The value as it is."""
        return self._values.get(key, default)

    def whole_number(self, key: str, default: int) -> int:
        """0 or more."""
        value = self._values.get(key, str(default))
        if not value.isdecimal():
            raise self._bad(key, "a whole number, 0 or more")
        return int(value)

    def share(self, key: str) -> float:
        """Above 0, at most 1."""
        try:
            value = float(self._values[key])
        except ValueError as error:
            raise self._bad(key, "a share above 0, at most 1") from error
        if not 0 < value <= 1:
            raise self._bad(key, "a share above 0, at most 1")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        value = self._values.get(key, str(default)).lower()
        if value not in _FLAGS:
            raise self._bad(key, "true or false")
        return _FLAGS[value]

    def _bad(self, key: str, wanted: str) -> InvalidInput:
        return InvalidInput(f"setting {key!r} of platform {self._platform!r} is {self._values[key]!r}: use {wanted}")
