import { value } from './values.js';

// Gathers the rows of an event. Heads are said once per batch, and found again by their columns.
export class Rows {
  constructor(writes) {
    this.writes = writes;
    this.shapes = [];
    this.changes = [];
  }

  upsert(target, row) {
    this.push('upsert', target, row);
  }

  update(target, row) {
    this.push('update', target, row);
  }

  delete(target, row) {
    this.push('delete', target, row);
  }

  push(operation, target, row) {
    const columns = Object.keys(row);
    const values = new Array(columns.length);
    for (let at = 0; at < columns.length; at++) values[at] = value(row[columns[at]], columns[at]);
    this.changes.push({ shape: this.shape(operation, target, columns), values });
  }

  shape(operation, target, columns) {
    const same = (known) => known.operation === operation && known.target === target
      && known.columns.length === columns.length && known.columns.every((column, at) => column === columns[at]);
    const found = this.shapes.findIndex(same);
    if (found >= 0) return found;
    const granted = this.writes[target];
    if (!granted) throw new TypeError(`${target} is none of the targets that this plugin says it writes`);
    const stranger = columns.find((column) => !granted.includes(column));
    if (stranger !== undefined) throw new TypeError(`${stranger} is no column that this plugin says it writes to ${target}`);
    return this.shapes.push({ operation, target, columns }) - 1;
  }

  take() {
    const changes = this.changes;
    this.changes = [];
    return changes;
  }
}
