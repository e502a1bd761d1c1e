"""A record, for plugins that read it themselves."""

from typing import Any, Optional

from wit_world.imports import types as wit

from .fields import reader
from .stop import reject, skip


class Message:
    """What a plugin sees of a record."""

    __slots__ = ("_raw",)

    def __init__(self, raw: wit.Message):
        self._raw = raw

    @property
    def source(self) -> str:
        """The topic's alias in the configuration."""
        return self._raw.source

    @property
    def key(self) -> Optional[bytes]:
        return self._raw.key

    @property
    def is_tombstone(self) -> bool:
        return isinstance(self._raw.body, wit.Body_Absent)

    def text(self) -> str:
        """The payload. Skips a tombstone."""
        body = self._raw.body
        if isinstance(body, wit.Body_Text):
            return body.value
        if isinstance(body, wit.Body_Absent):
            raise skip("tombstone")
        try:
            return bytes(body.value).decode("utf-8")
        except UnicodeDecodeError as error:
            raise reject("payload-not-utf8", f"the payload is not UTF-8: {error}") from None

    def bytes(self) -> bytes:
        """The payload, as bytes. Skips a tombstone."""
        body = self._raw.body
        if isinstance(body, wit.Body_Binary):
            return bytes(body.value)
        return self.text().encode("utf-8")

    def json(self, event: type) -> Any:
        """The payload, read as this dataclass; what does not fit is rejected with the code bad-json."""
        return reader(event)(self.text())

    def header(self, name: str) -> Optional[bytes]:
        """The value of the first header of this name that has one."""
        return next((one.value for one in self._raw.headers if one.name == name and one.value is not None), None)
