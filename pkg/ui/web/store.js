// Holds the rows of all tables as the server sends them, and what has changed since the page was opened.

const longest = 500; // entries in the list of changes

export const tables = new Map(); // name -> {rows: Map of id -> row, ready, refused, order: number of the last change}
export const changes = []; // {at, table, id, what, row, fields}, the latest first
export let health = null;

const listeners = new Set();
const texts = new WeakMap();

// table returns a table, also before the server has sent it.
export function table(name) {
  if (!tables.has(name)) tables.set(name, { rows: new Map(), ready: false, refused: [] });
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

function record(name, id, what, row, fields = []) {
  changes.unshift({ at: new Date(), table: name, id, what, row, fields });
  changes.length = Math.min(changes.length, longest);
}

const receivers = {
  table({ table: name, ready, refused, rows = {} }) {
    const t = table(name);
    Object.assign(t, { ready, refused, rows: new Map(Object.entries(rows)) });
    notify(name);
  },
  state({ table: name, ready, refused }) {
    Object.assign(table(name), { ready, refused });
    notify(name);
  },
  change({ table: name, put, drop }) {
    const t = table(name);
    for (const [id, row] of Object.entries(put)) {
      const had = t.rows.get(id);
      t.rows.set(id, row);
      if (t.ready) record(name, id, had ? 'changed' : 'added', row, had ? different(had, row) : []);
    }
    for (const id of drop) {
      const had = t.rows.get(id);
      if (t.rows.delete(id)) record(name, id, 'removed', had);
    }
    notify(name);
    notify('changes');
  },
  health(event) {
    health = event;
    notify('health');
  },
};

// different lists the fields that differ: {name, from, to}.
function different(a, b) {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])]
    .filter(name => JSON.stringify(a[name]) !== JSON.stringify(b[name]))
    .map(name => ({ name, from: values(a[name]).join(' '), to: values(b[name]).join(' ') }));
}

// receive takes an event of the server.
export function receive(name, data) { receivers[name]?.(data); }
