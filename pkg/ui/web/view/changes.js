import { h, link } from '../dom.js';
import { kinds } from '../kinds.js';
import { changes } from '../store.js';

const shown = 200;

// changesView lists what has changed since the page was opened, the latest first.
export function changesView({ listen, painted }) {
  const log = h('ol', { class: 'changes', role: 'log', 'aria-live': 'off', 'aria-label': 'Changes' });
  const none = h('p', { role: 'status' }, 'Nothing has changed since the page was opened.');
  listen(['changes'], () => {
    none.hidden = changes.length > 0;
    log.replaceChildren(...changes.slice(0, shown).map(entry));
    painted();
  });
  return { title: 'Changes', element: h('div', {}, none, log) };
}

function entry({ at, table, what, row, fields }) {
  const kind = kinds[table], name = kind.name(row);
  return h('li', {}, h('time', { datetime: at.toISOString() }, at.toLocaleTimeString()), ' ',
    `${kind.one} `, what === 'removed' ? h('strong', {}, name) : link(kind.path(row), name), ` ${what}`,
    fields.length ? h('ul', {}, fields.map(f => h('li', {}, `${f.name}: ${f.from || 'nothing'} → ${f.to || 'nothing'}`))) : null);
}
