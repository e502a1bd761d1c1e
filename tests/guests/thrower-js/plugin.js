// Throws what its author did not foresee, where the event says so: `{"id":"e-1","does":"compute"}`.

import { log, plugin, text } from './tidegate/index.js';

function stumble(event) {
  return event.nothing.of.this.kind;
}

export const processor = plugin({
  name: 'thrower',
  version: '0.1.0',
  writes: { rows: ['id'] },
  event: { id: text, does: text },
  key(event) {
    if (event.does === 'key') stumble(event);
    return { messageId: event.id, aggregateId: event.id };
  },
  compute(event, rows) {
    log.debug(`computing ${event.id}`);
    rows.upsert('rows', { id: event.id });
    if (event.does === 'compute') stumble(event);
    if (event.does === 'column') rows.upsert('rows', { id: event.id, other: 1 });
    if (event.does === 'value') rows.upsert('rows', { id: { an: 'object' } });
  },
});
