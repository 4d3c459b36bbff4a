import { get } from '../api.js';
import { h, link, pill, refusal } from '../dom.js';
import { actions, kinds } from '../kinds.js';
import { table } from '../store.js';
import { problemList } from './overview.js';

// detailView shows a row with all of its values.
export function detailView(name, { rest, listen, signal, painted }) {
  const kind = kinds[name];
  const box = h('div', {});
  const why = name === 'pods' ? whyBox(rest, signal) : null;
  let shown = null;
  listen([name], () => {
    const t = table(name);
    const [, row] = [...t.rows].find(([, each]) => kind.path(each) === `${name}/${rest}`) ?? [];
    if (row && row === shown) return;
    shown = row;
    if (!row) {
      box.replaceChildren(...t.refused.map(refusal), h('p', { role: 'status' }, t.ready ? `There is no ${kind.one.toLowerCase()} ${rest}.` : 'Reading…'));
      return;
    }
    box.replaceChildren(actions(name, row), values(kind, row), ...parts(name, row));
    painted();
  });
  return { title: `${kind.one} ${rest}`, element: h('div', { class: 'detail' }, box, why) };
}

function values(kind, row) {
  const entries = kind.columns.flatMap(column => {
    const content = column.cell ? column.cell(row) : String(column.value(row) ?? '');
    return content === '' ? [] : [h('dt', {}, column.name), h('dd', {}, column.name === 'Node' && row.node ? link(`nodes/${row.node}`, row.node) : content)];
  });
  if (row.message) entries.push(h('dt', {}, 'Message'), h('dd', {}, row.message));
  return h('dl', { class: 'card' }, entries);
}

function parts(name, row) {
  if (name === 'nodes') return [h('h2', {}, 'Problems'), problemList(row.problems)];
  if (name !== 'pods') return [];
  return [h('h2', {}, 'Interfaces'), simpleTable(['Interface', 'Network', 'Addresses', 'MAC', 'Logical port'],
    row.interfaces.map(i => [i.interface, i.network, i.addresses.join(' '), i.mac ?? '', i.port ?? '']), 'The pod has no interface yet.')];
}

// simpleTable is a table of texts that is short.
export function simpleTable(heads, rows, empty) {
  if (rows.length === 0) return h('p', {}, empty);
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': heads[0] },
    h('table', {}, h('thead', {}, h('tr', {}, heads.map(head => h('th', { scope: 'col' }, head)))),
      h('tbody', {}, rows.map(cells => h('tr', {}, cells.map(cell => h('td', {}, cell)))))));
}

// whyBox answers on request why the pod does not start.
function whyBox(pod, signal) {
  const out = h('div', { 'aria-live': 'polite' });
  const read = async () => {
    out.replaceChildren(h('p', {}, 'Reading…'));
    try {
      const answer = await get('why', { pod }, signal);
      out.replaceChildren(h('p', {}, answer.waits ? pill('Pending') : pill('Good'), ' ',
        answer.waits ? `Stage ${answer.stage}, which waits for ${answer.for}: ` : '', answer.why),
      ...(answer.next ?? []).map(next => h('p', { class: 'next' }, h('span', { 'aria-hidden': 'true' }, '→ '), next)),
      ...(answer.notes ?? []).map(note => h('p', { class: 'note' }, note)));
    } catch (failed) {
      if (!signal.aborted) out.replaceChildren(refusal(failed));
    }
  };
  return h('section', {}, h('h2', {}, 'Does it wait for its network?'), h('button', { type: 'button', onclick: read }, 'Ask'), out);
}
