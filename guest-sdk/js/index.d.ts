/** Write tidegate plugins: one event in, a key and rows out. */

/** A decimal number by its digits, never a float: 10.10 stays 10.10, however long. */
export class Decimal {
  /** @throws RangeError where it is not a decimal number */
  constructor(digits: string | number | bigint);
  readonly digits: string;
  isZero(): boolean;
  /** Below zero (-0.00 is not). */
  isNegative(): boolean;
  /** In units of its n-th decimal place: 10.10 with two places is 1010n. Exact, never rounded. @throws RangeError */
  scaled(places: number): bigint;
  toString(): string;
}

/** A point in time as the event has it: an RFC 3339 text, or milliseconds since 1970. The host parses it. */
export class Timestamp {
  constructor(at: string | number);
  toString(): string;
}

/** For a column of type json or jsonb. */
export class Json {
  constructor(content: unknown);
  /** A text that is JSON already; the host checks it. */
  static raw(text: string): Json;
}

/** What can stand in a column. The host casts it to the column's type and refuses what does not fit without loss. */
export type Value = string | number | bigint | boolean | null | undefined | Decimal | Timestamp | Json | Uint8Array;

/** A declared field, and the type that it is read as. */
export interface Field<T> {
  readonly read: (raw: unknown, path: string) => T;
}
export type Fields = Record<string, Field<unknown>>;
/** What an event of these fields looks like. */
export type Event<F extends Fields> = { [Name in keyof F]: F[Name] extends Field<infer T> ? T : never };

export const text: Field<string>;
export const bool: Field<boolean>;
/** A number that may be rounded. */
export const real: Field<number>;
/** A whole number up to 2^53. */
export const integer: Field<number>;
/** A whole number of 64 bits. */
export const int64: Field<bigint>;
/** A number, or a text of one; its digits are kept. */
export const decimal: Field<Decimal>;
export const instant: Field<Timestamp>;
/** One of these words. An event with another one is not for this plugin: it is skipped. Declare it first. */
export function only<const Word extends string>(...words: Word[]): Field<Word>;
export function optional<T>(of: Field<T>): Field<T | undefined>;
export function list<T>(of: Field<T>): Field<T[]>;
export function object<F extends Fields>(fields: F): Field<Event<F>>;

/** What a plugin sees of a record. */
export interface Message {
  /** The topic's alias in the configuration. */
  readonly source: string;
  readonly key?: Uint8Array;
  readonly isTombstone: boolean;
  /** The payload. Skips a tombstone. */
  text(): string;
  /** The payload of a consumer with `payload = "binary"`. Skips a tombstone. */
  bytes(): Uint8Array;
  /** The payload, read as these fields; what does not fit is rejected with the code bad-json. */
  json<F extends Fields>(fields: F): Event<F>;
  header(name: string): Uint8Array | undefined;
}

/** Who an event is. */
export interface Identity {
  /** The producer's event id, the key of the deduplication: never made up here, never an offset. At most 120 characters. */
  messageId: string;
  /** The business object: for ordering and search. At most 120 characters. */
  aggregateId: string;
  /** When it happened, where the event says so: tells a replay that is older than the ledger's memory. */
  occurredAt?: Timestamp | string | number;
  /** What has to be equal in two copies; the whole payload where not given. */
  fingerprint?: Uint8Array;
}

/** Where the rows of an event go. They apply in this order. */
export interface Rows {
  upsert(target: string, row: Record<string, Value>): void;
  /** Merges into the row that is there; does nothing where there is none. */
  update(target: string, row: Record<string, Value>): void;
  /** The columns are the target's key, and the column of its guard where it has one. */
  delete(target: string, row: Record<string, Value>): void;
}

/** All that compute may know besides the event. */
export interface Context<Settings> {
  readonly settings: Settings;
  /** Kafka's timestamp. A re-publication has another one: prefer the event's own time. */
  readonly recordTimeMs?: number;
  /** The same for every copy of an event. There is no other randomness. */
  readonly seed: number;
}

interface Common<E, Settings> {
  name: string;
  version: string;
  /** Raise it when key gives other keys than before, on purpose. */
  keyVersion?: number;
  /** The columns of each target. */
  writes: Record<string, readonly string[]>;
  /** Takes the consumer's settings; what it returns is given to the others. Throw what the operator should read. Without it, any setting is refused. */
  configure?(settings: Record<string, unknown>): Settings;
  /** Who the event is. Depends on the event alone. */
  key(event: E, settings: Settings): Identity;
  /** The rows that the event changes. */
  compute(event: E, rows: Rows, context: Context<Settings>): void;
}
/** A plugin whose messages are JSON of these fields. */
export interface JsonPlugin<F extends Fields, Settings> extends Common<Event<F>, Settings> {
  event: F;
}
/** A plugin that reads its messages itself. */
export interface ParsingPlugin<E, Settings> extends Common<E, Settings> {
  parse(message: Message, settings: Settings): E;
}

/** `export const processor = plugin({…})`. What one event's function throws rejects that event alone, with the code exception. */
export function plugin<const F extends Fields, Settings = undefined>(plugin: JsonPlugin<F, Settings>): object;
export function plugin<E, Settings = undefined>(plugin: ParsingPlugin<E, Settings>): object;

/** `throw skip('not a payment')`: not for this consumer. Counted, not kept. */
export function skip(why: string): unknown;
/** `throw reject('bad-amount', 'amount is negative')`: broken, to the dead letters. */
export function reject(code: string, message: string): unknown;

/** Lines for the operator's log. */
export namespace log {
  function debug(text: string): void;
  function info(text: string): void;
  function warn(text: string): void;
  function error(text: string): void;
}
