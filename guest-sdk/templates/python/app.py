"""Which rows an event changes. Everything else (Kafka, transactions, duplicates) is tidegate's."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from tidegate import Context, Identity, Plugin, Rows, Timestamp, export, only, reject


@dataclass
class Payment:
    """An event, as its producer writes it; others of its fields are ignored. What is broken becomes a dead letter by itself."""

    type: Annotated[str, only("payment.captured")]  # others are skipped
    event_id: str
    payment_id: str
    order_id: str
    version: int
    occurred_at: Timestamp
    amount: Decimal  # keeps the digits: 10.10 stays 10.10


class __Name__(Plugin):
    name = "__name__"
    version = "0.1.0"
    # The columns of each target, as the configuration grants them. How a row merges with the one that is there is
    # configuration, too.
    writes = {"payments": ["payment_id", "order_id", "amount", "event_version", "paid_at"]}
    event = Payment

    def key(self, payment: Payment) -> Identity:
        """The producer's own id of the event: the same on every re-publication. Never an offset, a time or a hash."""
        return Identity(payment.event_id, payment.order_id, payment.occurred_at)

    def compute(self, payment: Payment, rows: Rows, context: Context) -> None:
        """What the row shall be, not what to add to it."""
        if payment.amount < 0:
            raise reject("bad-amount", "amount is negative")
        rows.upsert(
            "payments",
            payment_id=payment.payment_id,
            order_id=payment.order_id,
            amount=payment.amount,
            event_version=payment.version,
            paid_at=payment.occurred_at,
        )


Processor = export(__Name__)
