import { write } from 'tidegate:plugin/log@0.1.0';

export const debug = (text) => write('debug', String(text));
export const info = (text) => write('info', String(text));
export const warn = (text) => write('warn', String(text));
export const error = (text) => write('error', String(text));
