// Why an event gives no rows. Thrown; not an Error, since nobody wants its stack.

class Stop {
  constructor(result) {
    this.result = result;
  }
}

export const skip = (why) => new Stop({ tag: 'skip', val: String(why) });

export const reject = (code, message) =>
  new Stop({ tag: 'reject', val: { code: String(code), message: String(message) } });

// What the host is told when an event's function has thrown: of this event alone.
export function resultOf(thrown) {
  if (thrown instanceof Stop) return thrown.result;
  if (!(thrown instanceof Error)) return reject('exception', thrown).result;
  // The innermost place outside of the SDK is where the author has to look; a bundle keeps functions' names.
  const place = (thrown.stack || '').trim().split('\n')[0].trim();
  return reject('exception', `${thrown.name}: ${thrown.message}${place && ` (${place})`}`).result;
}
