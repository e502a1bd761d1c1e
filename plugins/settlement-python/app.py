"""Payment events into settlements: what plugins/settlement is in Rust, in Python."""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from tidegate import Context, Identity, Plugin, Rows, Timestamp, export, only, reject, skip

STATUS = {
    "payment.authorized": "authorized",
    "payment.captured": "captured",
    "payment.refunded": "refunded",
    "payment.failed": "failed",
}


@dataclass
class Payment:
    type: Annotated[str, only(*STATUS)]
    event_id: str
    payment_id: str
    order_id: str
    version: int
    occurred_at: Timestamp
    amount: Decimal  # keeps the digits: 10.10 stays 10.10
    currency: str


class Settlement(Plugin):
    name = "settlement"
    version = "0.1.0"
    writes = {"settlements": ["payment_id", "order_id", "amount", "status", "event_version", "created_at"]}
    event = Payment
    currency = None

    def configure(self, settings: dict) -> None:
        self.currency = settings.pop("currency", None)
        for name in settings:
            raise ValueError(f"unknown setting {name!r}: there is only currency")
        if self.currency is not None and not re.fullmatch("[A-Z]{3}", self.currency):
            raise ValueError(f'currency = {json.dumps(self.currency)} is no ISO 4217 code such as "EUR"')

    def key(self, payment: Payment) -> Identity:
        if self.currency is not None and payment.currency != self.currency:
            raise skip(f"currency {json.dumps(payment.currency, ensure_ascii=False)}")
        return Identity(payment.event_id, payment.order_id, payment.occurred_at)

    def compute(self, payment: Payment, rows: Rows, context: Context) -> None:
        if payment.amount < 0:
            raise reject("bad-amount", "amount is negative")
        rows.upsert(
            "settlements",
            payment_id=payment.payment_id,
            order_id=payment.order_id,
            amount=payment.amount,
            status=STATUS[payment.type],
            event_version=payment.version,
            created_at=payment.occurred_at,
        )


Processor = export(Settlement)
