"""What can stand in a column, and how it crosses to the host. Never through a float where digits matter."""

import json
from decimal import Decimal
from typing import Any, Union

from wit_world.imports import types as wit


class Timestamp:
    """A point in time as the event has it: an RFC 3339 text, or whole milliseconds since 1970. The host parses it."""

    __slots__ = ("instant",)

    def __init__(self, at: Union[str, int]):
        if isinstance(at, str):
            self.instant = wit.Instant_Rfc3339(at)
        elif isinstance(at, int) and not isinstance(at, bool):
            self.instant = wit.Instant_UnixMs(at)
        else:
            raise TypeError("a Timestamp is an RFC 3339 text, or whole milliseconds since 1970")

    def __str__(self) -> str:
        return str(self.instant.value)


class Json:
    """For a column of type json or jsonb."""

    __slots__ = ("text",)

    def __init__(self, content: Any):
        self.text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def raw(cls, text: str) -> "Json":
        """A text that is JSON already; the host checks it."""
        made = cls.__new__(cls)
        made.text = text
        return made


_NULL = wit.Value_Null()
_LEAST, _MOST = -(2**63), 2**63 - 1


def _integer(of: int) -> wit.Value:
    return wit.Value_Integer(of) if _LEAST <= of <= _MOST else wit.Value_Decimal(str(of))


def _decimal(of: Decimal) -> wit.Value:
    if not of.is_finite():
        raise ValueError(f"{of} cannot stand in a column")
    return wit.Value_Decimal(str(of))


# By the exact type, which is fast; what is derived from one of these goes the long way.
_CROSSING = {
    str: wit.Value_Text,
    int: _integer,
    Decimal: _decimal,
    Timestamp: lambda of: wit.Value_Timestamp(of.instant),
    bool: wit.Value_Boolean,
    type(None): lambda _: _NULL,
    float: wit.Value_Real,
    bytes: wit.Value_Bytes,
    Json: lambda of: wit.Value_Json(of.text),
}


def value(of: Any, column: str) -> wit.Value:
    """A value of the contract for a value of the language."""
    crossing = _CROSSING.get(type(of))
    if crossing is None:
        crossing = next((cross for kind, cross in _CROSSING.items() if isinstance(of, kind)), None)
    if crossing is None:
        raise TypeError(f"{column}: a value of type {type(of).__name__} cannot stand in a column")
    return crossing(of)
