// Write tidegate plugins in JavaScript or TypeScript: one event in, a key and rows out. index.d.ts says what each part does.
export { Decimal, Json, Timestamp } from './values.js';
export { bool, decimal, instant, int64, integer, list, object, only, optional, real, text } from './fields.js';
export { reject, skip } from './stop.js';
export { plugin } from './plugin.js';
export * as log from './log.js';
