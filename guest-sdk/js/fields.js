// What an event looks like: reads JSON into objects whose fields have the types that were declared, or rejects it.

import { Decimal, Timestamp } from './values.js';
import { reject, skip } from './stop.js';

// A number whose digits matter is quoted before JSON.parse could round it; this mark tells it from a text.
const MARK = '\u0000';

const wrong = (path, what) => reject('bad-json', `${path}: ${what}`);

const kind = (raw) =>
  raw === undefined ? 'missing' : raw === null ? 'null' : Array.isArray(raw) ? 'a list'
    : typeof raw === 'string' && raw[0] === MARK ? 'a number' : `a ${typeof raw}`;

const field = (read, more) => ({ read, exact: false, names: [], absent: false, ...more });

export const text = field((raw, path) => {
  if (typeof raw === 'string' && raw[0] !== MARK && raw.isWellFormed()) return raw;
  throw wrong(path, `expected a text, found ${kind(raw)}`);
});

export const bool = field((raw, path) => {
  if (typeof raw === 'boolean') return raw;
  throw wrong(path, `expected true or false, found ${kind(raw)}`);
});

export const real = field((raw, path) => {
  if (typeof raw === 'number') return raw;
  throw wrong(path, `expected a number, found ${kind(raw)}`);
});

export const integer = field((raw, path) => {
  if (Number.isSafeInteger(raw)) return raw;
  throw wrong(path, typeof raw === 'number' ? 'not a whole number of at most 2^53: use int64' : `expected a whole number, found ${kind(raw)}`);
});

const WHOLE = /^(0|-?[1-9]\d*)$/;
const LEAST = -(2n ** 63n);
const MOST = 2n ** 63n - 1n;

export const int64 = field((raw, path) => {
  if (typeof raw === 'string' && raw[0] === MARK && WHOLE.test(raw.slice(1))) {
    const whole = BigInt(raw.slice(1));
    if (whole >= LEAST && whole <= MOST) return whole;
    throw wrong(path, 'beyond 64 bits');
  }
  throw wrong(path, `expected a whole number, found ${kind(raw)}`);
}, { exact: true });

export const decimal = field((raw, path) => {
  if (typeof raw === 'string') {
    if (raw[0] === MARK ? Decimal.isNumber(raw.slice(1)) : Decimal.isText(raw)) {
      return Decimal.of(raw[0] === MARK ? raw.slice(1) : raw);
    }
    throw wrong(path, 'not a decimal number such as -12.50');
  }
  throw wrong(path, `expected a decimal number, found ${kind(raw)}`);
}, { exact: true });

export const instant = field((raw, path) => {
  if ((typeof raw === 'string' && raw[0] !== MARK) || Number.isSafeInteger(raw)) return new Timestamp(raw);
  throw wrong(path, `expected an RFC 3339 text or milliseconds, found ${kind(raw)}`);
});

export const only = (...words) => {
  const known = new Set(words);
  return field((raw, path) => {
    const word = text.read(raw, path);
    if (known.has(word)) return word;
    throw skip(`${path} ${JSON.stringify(word)}`);
  });
};

export const optional = (of) =>
  field((raw, path) => (raw === undefined || raw === null ? undefined : of.read(raw, path)), {
    exact: of.exact, names: of.names, absent: true,
  });

export const list = (of) => {
  // Only a number that stands behind a field's name can be told from digits within a text.
  if (of.exact) throw new TypeError('a list of exact numbers cannot be read: use a list of objects, or of texts');
  return field((raw, path) => {
    if (Array.isArray(raw)) return raw.map((one, at) => of.read(one, `${path}[${at}]`));
    throw wrong(path, `expected a list, found ${kind(raw)}`);
  }, { names: of.names });
};

export const object = (fields) => {
  const entries = Object.entries(fields);
  const names = entries.flatMap(([name, of]) => (of.exact ? [name, ...of.names] : of.names));
  return field((raw, path) => {
    if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
      throw wrong(path || 'the event', `expected an object, found ${kind(raw)}`);
    }
    const out = {};
    for (const [name, of] of entries) out[name] = of.read(raw[name], path ? `${path}.${name}` : name);
    return out;
  }, { names });
};

// A function from JSON text to an event.
export function reader(fields) {
  const of = typeof fields.read === 'function' ? fields : object(fields);
  const names = [...new Set(of.names)];
  for (const name of names) {
    if (!/^[\w-]+$/.test(name)) throw new TypeError(`the exact field ${JSON.stringify(name)} has to be of letters, digits, - and _`);
  }
  // Within a JSON text each quote is escaped, so that a quoted name before a colon can only be a field's.
  const exact = names.length && new RegExp(`("(?:${names.join('|')})"\\s*:\\s*)(-?\\d[0-9.eE+-]*)`, 'g');
  return (json) => {
    let raw;
    try {
      raw = JSON.parse(exact ? json.replace(exact, '$1"\\u0000$2"') : json);
    } catch (error) {
      throw reject('bad-json', error.message);
    }
    return of.read(raw, '');
  };
}
