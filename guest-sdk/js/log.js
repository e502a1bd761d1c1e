import { write } from 'tidegate:plugin/log@0.1.0';

export const debug = (text) => write('debug', String(text));
export const info = (text) => write('info', String(text));
export const warn = (text) => write('warn', String(text));
export const error = (text) => write('error', String(text));

// The engine has none, and packages from npm, and people, use it.
const line = (level) => (...parts) =>
  write(level, parts.map((part) => (typeof part === 'string' ? part : JSON.stringify(part) ?? String(part))).join(' '));
globalThis.console ??= { debug: line('debug'), log: line('info'), info: line('info'), warn: line('warn'), error: line('error') };
