// Which rows an event changes. Everything else (Kafka, transactions, duplicates) is tidegate's.

import { decimal, instant, int64, only, plugin, reject, text } from './tidegate/index.js';

export const processor = plugin({
  name: '__name__',
  version: '0.1.0',
  // The columns of each target, as the configuration grants them. How a row merges with the one that is there is configuration, too.
  writes: { payments: ['payment_id', 'order_id', 'amount', 'event_version', 'paid_at'] },

  // An event, as its producer writes it; others of its fields are ignored. What is broken becomes a dead letter by itself.
  event: {
    type: only('payment.captured'), // others are skipped
    event_id: text,
    payment_id: text,
    order_id: text,
    version: int64,
    occurred_at: instant,
    amount: decimal, // keeps the digits: 10.10 stays 10.10
  },

  // The producer's own id of the event: the same on every re-publication. Never an offset, a time or a hash.
  key(payment) {
    return { messageId: payment.event_id, aggregateId: payment.order_id, occurredAt: payment.occurred_at };
  },

  // What the row shall be, not what to add to it.
  compute(payment, rows) {
    if (payment.amount.isNegative()) throw reject('bad-amount', 'amount is negative');
    rows.upsert('payments', {
      payment_id: payment.payment_id,
      order_id: payment.order_id,
      amount: payment.amount,
      event_version: payment.version,
      paid_at: payment.occurred_at,
    });
  },
});
