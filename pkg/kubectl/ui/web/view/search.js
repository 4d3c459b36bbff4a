import { h } from '../dom.js';
import { grid } from '../grid.js';
import { kinds } from '../kinds.js';
import { table, textOf } from '../store.js';

// searchView lists the objects of all tables by name, address and MAC.
export function searchView({ rest, listen, painted }) {
  const wanted = rest.toLowerCase();
  const sheet = grid({
    label: 'results', filtered: false, open: (id, found) => { location.hash = `#/${found.path}`; },
    columns: [
      { name: 'Kind', value: f => f.kind, width: 'minmax(0, .5fr)', place: 'b' }, { name: 'Name', value: f => f.name, width: 'minmax(0, 1.4fr)', place: 'a' },
      { name: 'Addresses', value: f => f.addresses, width: 'minmax(0, 1.5fr)', place: 'e' }, { name: 'MAC', value: f => f.macs, place: 'c' },
      { name: 'Where', value: f => f.where, place: 'd' },
    ],
  });
  const count = h('p', { role: 'status' });
  listen(Object.keys(kinds), () => {
    const found = Object.keys(kinds).flatMap(name => matches(name, wanted));
    count.textContent = `${found.length} found for “${rest}”`;
    sheet.update(found);
    painted();
  });
  return { title: 'Search', element: h('div', { class: 'fill' }, count, sheet.element) };
}

// matches returns the rows of a table that have the words in their name, addresses or MACs.
function matches(name, wanted) {
  const kind = kinds[name], found = [];
  if (!wanted) return found;
  for (const [id, row] of table(name).rows) {
    if (!textOf(row).includes(wanted.split('/').pop())) continue;
    const addresses = (kind.addresses?.(row) ?? []).join(' '), macs = (kind.macs?.(row) ?? []).join(' ');
    if (![kind.name(row), addresses, macs].some(text => text.toLowerCase().includes(wanted))) continue;
    found.push([id, { kind: kind.one, name: kind.name(row), addresses, macs, where: kind.where(row) ?? '', path: kind.path(row) }]);
  }
  return found;
}
