// Holds the rows of all tables and the log of changes as the server sends them.

const longest = 500; // entries in the log

export const tables = new Map(); // name -> {rows: Map of id -> row, ready, refused, version: number of the last change}
export let log = []; // {at, table, id, what, warning, fields, event}, the latest first
export let health = null;

const listeners = new Set();
const texts = new WeakMap();

// table returns a table, also before the server has sent it.
export function table(name) {
  if (!tables.has(name)) tables.set(name, { rows: new Map(), ready: false, refused: [], version: 0 });
  return tables.get(name);
}

// listen calls a function with the name of each table that changes, or "health": soon after a change, and no more often
// than every pause, so that a busy cluster does not keep the browser busy. It returns the function that ends it.
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const pause = 250; // milliseconds
let waiting = null;
let last = -pause;

function notify(name) {
  if (waiting) { waiting.add(name); return; }
  waiting = new Set([name]);
  setTimeout(() => {
    const names = waiting;
    [waiting, last] = [null, performance.now()];
    for (const listener of [...listeners]) for (const each of names) listener(each);
  }, Math.max(0, last + pause - performance.now()));
}

// textOf is what a search finds in a row: all of its values, in lower case.
export function textOf(row) {
  let text = texts.get(row);
  if (text === undefined) texts.set(row, text = values(row).join(' ').toLowerCase());
  return text;
}

function values(value) {
  if (value === null || value === undefined) return [];
  return typeof value === 'object' ? Object.values(value).flatMap(values) : [String(value)];
}

// changed marks a table as changed.
function changed(name) {
  table(name).version++;
  notify(name);
}

// counts counts something in a table: what -> number. It counts again only after a change.
export function counts(name, whatsOf) {
  let at = -1, found = new Map();
  return () => {
    const t = table(name);
    if (at !== t.version) {
      [at, found] = [t.version, new Map()];
      for (const row of t.rows.values()) for (const what of whatsOf(row)) found.set(what, (found.get(what) ?? 0) + 1);
    }
    return found;
  };
}

const receivers = {
  table({ table: name, ready, refused, rows = {} }) {
    Object.assign(table(name), { ready, refused, rows: new Map(Object.entries(rows)) });
    changed(name);
  },
  state({ table: name, ready, refused }) {
    Object.assign(table(name), { ready, refused });
    changed(name);
  },
  change({ table: name, put, drop }) {
    const { rows } = table(name);
    for (const [id, row] of Object.entries(put)) rows.set(id, row);
    for (const id of drop) rows.delete(id);
    changed(name);
  },
  log({ whole, entries }) {
    const repeated = new Set(entries.map(entry => entry.event).filter(Boolean));
    const kept = whole ? [] : log.filter(entry => !repeated.has(entry.event));
    const all = [...entries.map(entry => ({ ...entry, at: new Date(entry.at) })).reverse(), ...kept];
    log = all.sort((a, b) => b.at - a.at).slice(0, longest);
    notify('log');
  },
  health(event) {
    health = event;
    notify('health');
  },
};

// receive takes an event of the server.
export function receive(name, data) { receivers[name]?.(data); }
