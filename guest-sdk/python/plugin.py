"""From two functions over one event to what the host calls: configure, extract-keys and compute over a batch, in a fresh
instance per batch. What was read of an event is kept in between."""

import dataclasses
import json
from typing import Any, Mapping, Optional, Sequence, Union

from wit_world import exports
from wit_world.imports import types as wit
from componentize_py_types import Err

from .fields import reader
from .message import Message
from .rows import Rows
from .stop import Skip, rejection_of
from .values import Timestamp


@dataclasses.dataclass
class Identity:
    """Who an event is."""

    message_id: str
    """The producer's event id, the key of the deduplication: never made up here, never an offset. At most 120 characters."""
    aggregate_id: str
    """The business object: for ordering and search. At most 120 characters."""
    occurred_at: Optional[Union[Timestamp, str, int]] = None
    """When it happened, where the event says so: tells a replay that is older than the ledger's memory."""
    fingerprint: Optional[bytes] = None
    """What has to be equal in two copies; the whole payload where not given."""

    def cross(self) -> wit.KeyResult:
        if type(self.message_id) is not str or type(self.aggregate_id) is not str:
            raise TypeError("key has to give message_id and aggregate_id, both texts")
        at = self.occurred_at
        if at is not None and not isinstance(at, Timestamp):
            at = Timestamp(at)
        instant = None if at is None else at.instant
        return wit.KeyResult_Identity(wit.Identity(self.message_id, self.aggregate_id, instant, self.fingerprint))


@dataclasses.dataclass
class Context:
    """All that compute may know besides the event."""

    record_time_ms: Optional[int]
    """Kafka's timestamp. A re-publication has another one: prefer the event's own time."""
    seed: int
    """The same for every copy of an event. There is no other randomness."""


class Plugin:
    """The business rules of a consumer, one event at a time. Raise `skip` or `reject`; what else an event's function
    raises rejects that event alone, with the code `exception`."""

    name: str
    version: str
    key_version: int = 0
    """Raise it when key gives other keys than before, on purpose."""
    writes: Mapping[str, Sequence[str]]
    """The columns of each target."""
    event: Optional[type] = None
    """A dataclass of what the payload's JSON holds; or write `parse`."""

    def configure(self, settings: dict[str, Any]) -> None:
        """Takes the consumer's settings. Raise ValueError with what the operator should read."""
        for name in settings:
            raise ValueError(f"unknown setting {name!r}: this plugin has none")

    def parse(self, message: Message) -> Any:
        """Reads a message."""
        return self._read(message.text())

    def key(self, event: Any) -> Identity:
        """Who the event is. Depends on the event alone."""
        raise NotImplementedError

    def compute(self, event: Any, rows: Rows, context: Context) -> None:
        """The rows that the event changes."""
        raise NotImplementedError


def export(plugin: type[Plugin]) -> type:
    """`Processor = export(Payments)`, in app.py."""
    # Made once, while the component is built.
    made = plugin()
    made._read = reader(plugin.event) if plugin.event is not None else None
    description = json.dumps({
        "name": plugin.name, "version": plugin.version, "key-version": plugin.key_version,
        "targets": {target: list(columns) for target, columns in plugin.writes.items()},
    })
    events: list[Any] = []

    class Processor(exports.Processor):
        def describe(self) -> str:
            return description

        def configure(self, settings: str) -> None:
            try:
                made.configure(json.loads(settings))
            except Exception as error:
                raise Err(str(error))

        def extract_keys(self, batch: list[wit.Message]) -> list[wit.KeyResult]:
            events.clear()
            return [self._key(message) for message in batch]

        def _key(self, message: wit.Message) -> wit.KeyResult:
            event = None
            try:
                event = made.parse(Message(message))
                return made.key(event).cross()
            except Skip as why:
                return wit.KeyResult_Skip(str(why))
            except Exception as error:
                return wit.KeyResult_Reject(rejection_of(error))
            finally:
                events.append(event)

        def compute(self, batch: list[wit.Accepted]) -> wit.Computed:
            rows = Rows(plugin.writes)
            return wit.Computed(rows.shapes, [self._compute(one, rows) for one in batch])

        def _compute(self, one: wit.Accepted, rows: Rows) -> wit.ComputeResult:
            try:
                made.compute(events[one.index], rows, Context(one.record_time_ms, one.seed))
                return wit.ComputeResult_Changes(rows.take())
            except Skip as why:
                rows.take()
                return wit.ComputeResult_Skip(str(why))
            except Exception as error:
                rows.take()
                return wit.ComputeResult_Reject(rejection_of(error))

    return Processor
