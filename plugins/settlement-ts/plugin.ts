// Payment events into settlements: what plugins/settlement is in Rust, in TypeScript.

import { decimal, instant, int64, only, plugin, reject, skip, text } from './tidegate/index.js';

interface Settings {
  currency?: string;
}

const STATUS = {
  'payment.authorized': 'authorized',
  'payment.captured': 'captured',
  'payment.refunded': 'refunded',
  'payment.failed': 'failed',
} as const;

const TYPES = Object.keys(STATUS) as (keyof typeof STATUS)[];

export const processor = plugin({
  name: 'settlement',
  version: '0.1.0',
  writes: { settlements: ['payment_id', 'order_id', 'amount', 'status', 'event_version', 'created_at'] },

  configure({ currency, ...others }): Settings {
    for (const name in others) throw `unknown setting ${name}: there is only currency`;
    if (currency === undefined) return {};
    if (typeof currency === 'string' && /^[A-Z]{3}$/.test(currency)) return { currency };
    throw `currency = ${JSON.stringify(currency)} is no ISO 4217 code such as "EUR"`;
  },

  event: {
    type: only(...TYPES),
    event_id: text,
    payment_id: text,
    order_id: text,
    version: int64,
    occurred_at: instant,
    amount: decimal, // keeps the digits: 10.10 stays 10.10
    currency: text,
  },

  key(payment, settings) {
    if (settings.currency && payment.currency !== settings.currency) {
      throw skip(`currency ${JSON.stringify(payment.currency)}`);
    }
    return { messageId: payment.event_id, aggregateId: payment.order_id, occurredAt: payment.occurred_at };
  },

  compute(payment, rows) {
    if (payment.amount.isNegative()) throw reject('bad-amount', 'amount is negative');
    rows.upsert('settlements', {
      payment_id: payment.payment_id,
      order_id: payment.order_id,
      amount: payment.amount,
      status: STATUS[payment.type],
      event_version: payment.version,
      created_at: payment.occurred_at,
    });
  },
});
