import { h, link, pill } from '../dom.js';
import { kinds, rowOf } from '../kinds.js';
import * as store from '../store.js';

const shown = 200;

// changesView lists what has changed, the latest first. The server remembers what it has seen, and what objects say about their past.
export function changesView({ listen, painted }) {
  const entries = h('ol', { class: 'changes', role: 'log', 'aria-live': 'off', 'aria-label': 'Changes' });
  const none = h('p', { role: 'status' });
  listen(['log'], () => {
    none.textContent = store.log.length ? '' : 'No change is known yet.';
    entries.replaceChildren(...store.log.slice(0, shown).map(entry));
    painted();
  });
  return { title: 'Changes', element: h('div', {},
    h('p', { class: 'note' }, 'What kubectl weft ui has seen, the latest first. Before its start: when objects were created, when their conditions last changed, and Weft’s events.'),
    none, entries) };
}

function entry({ at, table, id, what, warning, fields = [] }) {
  const [kind, ...rest] = id.split('/');
  const found = rowOf(id, table), name = found ? kinds[found.table].name(found.row) : rest.join('/');
  return h('li', {}, h('time', { datetime: at.toISOString() }, timeText(at)), ' ', warning ? [pill('Warning'), ' '] : null,
    `${kind} `, found ? link(kinds[found.table].path(found.row), name) : h('strong', {}, name), ` ${what}`,
    fields.length ? h('ul', {}, fields.map(f => h('li', {}, `${f.name}: ${f.from || 'nothing'} → ${f.to || 'nothing'}`))) : null);
}

// timeText leaves out the date of today.
function timeText(at) {
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString() : at.toLocaleString();
}
