// From two functions over one event to what the host calls: configure, extract-keys and compute over a batch, in a fresh
// instance per batch. What was read of an event is kept in between.

import { reader } from './fields.js';
import { Message } from './message.js';
import { Rows } from './rows.js';
import { reject, resultOf } from './stop.js';
import { Timestamp } from './values.js';

const noSettings = (settings) => {
  const [first] = Object.keys(settings);
  if (first !== undefined) throw new Error(`unknown setting ${JSON.stringify(first)}: this plugin has none`);
};

function identity({ messageId, aggregateId, occurredAt, fingerprint }) {
  if (typeof messageId !== 'string' || typeof aggregateId !== 'string') {
    throw new TypeError('key has to give messageId and aggregateId, both texts');
  }
  const at = occurredAt ?? undefined;
  const occurred = at === undefined || at instanceof Timestamp ? at : new Timestamp(at);
  return { tag: 'identity', val: { messageId, aggregateId, occurredAt: occurred?.instant, fingerprint: fingerprint ?? undefined } };
}

export function plugin({ name, version, keyVersion = 0, writes, configure = noSettings, event, parse, key, compute }) {
  if (!parse && !event) throw new TypeError('a plugin has an event (its fields), or a function parse');
  const read = event && reader(event);
  const parsed = parse ?? ((message) => read(message.text()));
  let settings;
  let events = [];
  let rows = new Rows(writes);

  return {
    describe: () => JSON.stringify({ name, version, 'key-version': keyVersion, targets: writes }),

    configure(json) {
      try {
        settings = configure(JSON.parse(json));
      } catch (error) {
        // A text is the error of the contract's result; anything else would end the instance.
        throw error instanceof Error ? error.message : String(error);
      }
    },

    extractKeys(batch) {
      events = new Array(batch.length);
      return batch.map((raw, at) => {
        try {
          const found = parsed(new Message(raw), settings);
          const who = identity(key(found, settings));
          events[at] = found;
          return who;
        } catch (thrown) {
          return resultOf(thrown);
        }
      });
    },

    compute(accepted) {
      const results = accepted.map(({ index, recordTimeMs, seed }) => {
        try {
          if (!(index in events)) throw reject('sdk', 'the host asked for an event that has no identity');
          const time = recordTimeMs === undefined || recordTimeMs === null ? undefined : Number(recordTimeMs);
          compute(events[index], rows, { settings, recordTimeMs: time, seed });
          return { tag: 'changes', val: rows.take() };
        } catch (thrown) {
          rows.take();
          return resultOf(thrown);
        }
      });
      return { shapes: rows.shapes, results };
    },
  };
}
