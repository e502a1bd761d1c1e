"""Raises what its author did not foresee, where the event says so: `{"id":"e-1","does":"compute"}`."""

from dataclasses import dataclass

from tidegate import Identity, Plugin, export, log


@dataclass
class Event:
    id: str
    does: str


def stumble(event):
    return {}[f"nothing of {event.id}"]


class Thrower(Plugin):
    name = "thrower"
    version = "0.1.0"
    writes = {"rows": ["id"]}
    event = Event

    def key(self, event):
        if event.does == "key":
            stumble(event)
        return Identity(event.id, event.id)

    def compute(self, event, rows, context):
        log.debug(f"computing {event.id}")
        rows.upsert("rows", id=event.id)
        if event.does == "compute":
            stumble(event)
        if event.does == "column":
            rows.upsert("rows", id=event.id, other=1)
        if event.does == "value":
            rows.upsert("rows", id=object())


Processor = export(Thrower)
