import { h, refusal } from '../dom.js';
import { grid } from '../grid.js';
import { kinds, rowsOf } from '../kinds.js';
import { table } from '../store.js';

// tableView lists the rows of a table.
export function tableView(name, { listen, painted }) {
  const kind = kinds[name];
  const notes = h('div', {});
  const wait = h('p', { class: 'wait', role: 'status' }, 'Reading…');
  const sheet = grid({ label: kind.title, columns: kind.columns, open: (id, row) => { location.hash = `#/${kind.path(row)}`; } });
  listen([name, ...kind.also ?? []], () => {
    const t = table(name);
    notes.replaceChildren(...t.refused.map(refusal));
    wait.hidden = t.ready;
    sheet.update(rowsOf(name));
    if (t.ready) painted();
  });
  return { title: kind.title, element: h('div', { class: 'fill' }, notes, wait, sheet.element) };
}
