import { reader } from './fields.js';
import { reject, skip } from './stop.js';

// A record, for plugins that read it themselves.
export class Message {
  constructor({ source, key, body, headers }) {
    this.source = source;
    this.key = key ?? undefined;
    this.body = body;
    this.headers = headers;
  }

  get isTombstone() {
    return this.body.tag === 'absent';
  }

  text() {
    if (this.body.tag === 'text') return this.body.val;
    if (this.body.tag === 'absent') throw skip('tombstone');
    throw reject('payload-binary', 'the payload comes as bytes: set payload = "text" for this consumer, or use bytes()');
  }

  bytes() {
    if (this.body.tag === 'binary') return this.body.val;
    if (this.body.tag === 'absent') throw skip('tombstone');
    throw reject('payload-text', 'the payload comes as a text: set payload = "binary" for this consumer, or use text()');
  }

  json(fields) {
    return reader(fields)(this.text());
  }

  // The value of the first header of this name that has one.
  header(name) {
    return this.headers.find((header) => header.name === name && header.value)?.value;
  }
}
