"""What an event looks like: reads JSON into a dataclass whose fields have the types that it says, or rejects it."""

import dataclasses
import json
import types
import typing
from decimal import Decimal
from typing import Any, Callable

from .stop import reject, skip
from .values import Timestamp

Read = Callable[[Any, str], Any]


class only:
    """`type: Annotated[str, only("payment.captured")]`: one of these words. An event with another one is not for this
    plugin: it is skipped. Declare it first."""

    def __init__(self, *words: str):
        self.words = frozenset(words)


def _constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


_decode = json.JSONDecoder(parse_float=Decimal, parse_constant=_constant).decode


def reader(event: type) -> Callable[[str], Any]:
    """A function from JSON text to an event of this dataclass."""
    read = _object(event)

    def of(text: str) -> Any:
        try:
            raw = _decode(text)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise reject("bad-json", str(error)) from None
        return read(raw, "")

    return of


def _wrong(path: str, expected: str, raw: Any) -> Exception:
    found = "missing" if raw is _ABSENT else "null" if raw is None else f"found a {_NAMES.get(type(raw), type(raw).__name__)}"
    return reject("bad-json", f"{path or 'the event'}: expected {expected}, {found}")


_ABSENT = object()
_NAMES = {str: "text", int: "number", Decimal: "number", dict: "object", list: "list", bool: "boolean"}
_LEAST, _MOST = -(2**63), 2**63 - 1


def _text(raw: Any, path: str) -> str:
    # JSON can hold half of a surrogate pair, which is no text.
    if type(raw) is str and (raw.isascii() or not any("\ud800" <= c <= "\udfff" for c in raw)):
        return raw
    raise _wrong(path, "a text", raw)


def _int(raw: Any, path: str) -> int:
    if type(raw) is int and _LEAST <= raw <= _MOST:
        return raw
    raise _wrong(path, "a whole number of 64 bits", raw)


def _decimal(raw: Any, path: str) -> Decimal:
    if type(raw) is Decimal:
        number = raw
    elif type(raw) is int:
        number = Decimal(raw)
    elif type(raw) is str and raw.isascii() and raw.strip("0123456789.eE+-") == "" and raw[:1] not in ("+", "."):
        try:
            number = Decimal(raw)
        except ArithmeticError:
            raise _wrong(path, "a decimal number", raw) from None
    else:
        raise _wrong(path, "a decimal number", raw)
    if not number.is_finite() or abs(number.as_tuple().exponent) > 99_999:
        raise _wrong(path, "a decimal number", raw)
    return number


def _bool(raw: Any, path: str) -> bool:
    if type(raw) is bool:
        return raw
    raise _wrong(path, "true or false", raw)


def _float(raw: Any, path: str) -> float:
    if type(raw) in (int, Decimal):
        return float(raw)
    raise _wrong(path, "a number", raw)


def _timestamp(raw: Any, path: str) -> Timestamp:
    return Timestamp(_int(raw, path) if type(raw) is int else _text(raw, path))


def _any(raw: Any, path: str) -> Any:
    if raw is _ABSENT:
        raise _wrong(path, "something", raw)
    return raw


_SIMPLE: dict[Any, Read] = {
    str: _text, int: _int, Decimal: _decimal, bool: _bool, float: _float, Timestamp: _timestamp, Any: _any,
}


def _only(words: frozenset, of: Read) -> Read:
    def read(raw: Any, path: str) -> Any:
        word = of(raw, path)
        if word in words:
            return word
        raise skip(f"{path} {json.dumps(word, ensure_ascii=False)}")

    return read


def _optional(of: Read) -> Read:
    return lambda raw, path: None if raw is _ABSENT or raw is None else of(raw, path)


def _list(of: Read) -> Read:
    def read(raw: Any, path: str) -> list:
        if type(raw) is list:
            return [of(one, f"{path}[{at}]") for at, one in enumerate(raw)]
        raise _wrong(path, "a list", raw)

    return read


def _object(event: type) -> Read:
    hints = typing.get_type_hints(event, include_extras=True)
    # A field's name in JSON where it is another one: field(metadata={"json": "type"}).
    fields = [(field.metadata.get("json", field.name), _field(hints[field.name], field)) for field in dataclasses.fields(event)]

    def read(raw: Any, path: str) -> Any:
        if type(raw) is not dict:
            raise _wrong(path, "an object", raw)
        get = raw.get
        return event(*[of(get(name, _ABSENT), f"{path}.{name}" if path else name) for name, of in fields])

    return read


def _field(hint: Any, field: Any) -> Read:
    of = _read(hint, field.name)
    if field.default is dataclasses.MISSING:
        return of
    return lambda raw, path: field.default if raw is _ABSENT else of(raw, path)


def _read(hint: Any, name: str) -> Read:
    simple = _SIMPLE.get(hint) if isinstance(hint, typing.Hashable) else None
    if simple is not None:
        return simple
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        of = _read(arguments[0], name)
        for note in arguments[1:]:
            of = _only(note.words, of) if isinstance(note, only) else of
        return of
    if origin in (typing.Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:
        return _optional(_read(next(one for one in arguments if one is not type(None)), name))
    if origin is list:
        return _list(_read(arguments[0], name))
    if dataclasses.is_dataclass(hint):
        return _object(hint)
    raise TypeError(f"{name}: {hint} cannot be read from JSON; use str, int, Decimal, bool, float, Timestamp, Any, "
                    "list[…], a dataclass, or one of these | None")
