// What can stand in a column, and how it crosses to the host. Never through a float where digits matter.

// As in JSON; and as people write it in JSON strings, where zeros may lead.
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE](?=.{1,6}$)[+-]?\d+)?$/;
const TEXT = /^-?\d+(\.\d+)?([eE](?=.{1,6}$)[+-]?\d+)?$/;

export class Decimal {
  constructor(digits) {
    const text = String(digits);
    if (!TEXT.test(text)) throw new RangeError(`${JSON.stringify(digits)} is not a decimal number such as -12.50`);
    this.digits = text;
  }

  static isNumber(digits) {
    return NUMBER.test(digits);
  }

  static isText(text) {
    return TEXT.test(text);
  }

  // For digits that were checked.
  static of(digits) {
    const decimal = Object.create(Decimal.prototype);
    decimal.digits = digits;
    return decimal;
  }

  isZero() {
    return !/[1-9]/.test(this.digits.split(/[eE]/, 1)[0]);
  }

  isNegative() {
    return this.digits.charCodeAt(0) === 45 && !this.isZero();
  }

  scaled(places) {
    if (this.isZero()) return 0n;
    const [mantissa, exponent = '0'] = this.digits.toLowerCase().split('e');
    const [whole, fraction = ''] = mantissa.split('.');
    const digits = whole + fraction;
    const significant = digits.replace(/0+$/, '');
    const shift = places + digits.length - significant.length - fraction.length + Number(exponent);
    if (shift < 0) throw new RangeError(`${this.digits} has more than ${places} decimal places`);
    if (shift > 1000) throw new RangeError(`${this.digits} is too large`);
    return BigInt(significant) * 10n ** BigInt(shift);
  }

  toString() {
    return this.digits;
  }

  toJSON() {
    return this.digits;
  }
}

export class Timestamp {
  constructor(at) {
    if (typeof at === 'string') this.instant = { tag: 'rfc3339', val: at };
    else if (Number.isSafeInteger(at)) this.instant = { tag: 'unix-ms', val: at };
    else throw new TypeError('a Timestamp is an RFC 3339 text, or whole milliseconds since 1970');
  }

  toString() {
    return String(this.instant.val);
  }
}

export class Json {
  constructor(content) {
    this.text = JSON.stringify(content);
    if (this.text === undefined) throw new TypeError('this is not JSON');
  }

  static raw(text) {
    return Object.assign(Object.create(Json.prototype), { text: String(text) });
  }
}

const MOST = BigInt(Number.MAX_SAFE_INTEGER);
const NULL = { tag: 'null' };

// A value of the contract for a value of the language.
export function value(of, column) {
  switch (typeof of) {
    case 'string':
      return { tag: 'text', val: of };
    case 'number':
      if (Number.isSafeInteger(of)) return { tag: 'integer', val: of };
      if (Number.isInteger(of)) throw new RangeError(`${column}: ${of} is beyond what a number holds exactly: use a bigint`);
      return { tag: 'real', val: of };
    case 'bigint':
      // Beyond that a number would be rounded on its way out; the host takes digits for whole numbers, too.
      return of <= MOST && of >= -MOST ? { tag: 'integer', val: Number(of) } : { tag: 'decimal', val: of.toString() };
    case 'boolean':
      return { tag: 'boolean', val: of };
    case 'undefined':
      return NULL;
    case 'object':
      if (of === null) return NULL;
      if (of instanceof Decimal) return { tag: 'decimal', val: of.digits };
      if (of instanceof Timestamp) return { tag: 'timestamp', val: of.instant };
      if (of instanceof Uint8Array) return { tag: 'bytes', val: of };
      if (of instanceof Json) return { tag: 'json', val: of.text };
  }
  throw new TypeError(`${column}: an object has to be a Decimal, a Timestamp, a Json or a Uint8Array`);
}
