"""Write tidegate plugins in Python: one event in, a key and rows out.

    from dataclasses import dataclass
    from decimal import Decimal
    from tidegate import Identity, Plugin, Timestamp, export, reject

    @dataclass
    class Payment:
        event_id: str
        payment_id: str
        order_id: str
        amount: Decimal        # keeps the digits: 10.10 stays 10.10
        version: int
        occurred_at: Timestamp

    class Payments(Plugin):
        name = "payments"
        version = "1.0.0"
        writes = {"payments": ["payment_id", "order_id", "amount", "event_version"]}
        event = Payment

        def key(self, payment):
            return Identity(payment.event_id, payment.order_id, payment.occurred_at)

        def compute(self, payment, rows, context):
            if payment.amount < 0:
                raise reject("bad-amount", "amount is negative")
            rows.upsert("payments", payment_id=payment.payment_id, order_id=payment.order_id,
                        amount=payment.amount, event_version=payment.version)

    Processor = export(Payments)

Import everything at the top of a module: what a function imports is not there when it runs.
"""

from . import log
from .fields import only
from .message import Message
from .plugin import Context, Identity, Plugin, export
from .rows import Rows
from .stop import Reject, Skip, reject, skip
from .values import Json, Timestamp

__all__ = [
    "Context", "Identity", "Json", "Message", "Plugin", "Reject", "Rows", "Skip", "Timestamp",
    "export", "log", "only", "reject", "skip",
]
