import { get } from '../api.js';
import { h, link, pill, refusal } from '../dom.js';
import { actions, kinds, rowsOf } from '../kinds.js';
import { table } from '../store.js';
import { problemList } from './overview.js';

// detailView shows a row with all of its values.
export function detailView(name, { rest, listen, signal, painted }) {
  const kind = kinds[name];
  const box = h('div', {});
  const why = name === 'pods' ? whyBox(rest, signal) : null;
  let shown = null, existed = false;
  listen([name, ...kind.also ?? []], () => {
    const t = table(name);
    const [, row] = rowsOf(name).find(([, each]) => kind.path(each) === `${name}/${rest}`) ?? [];
    if (row && row === shown) return;
    shown = row;
    if (!row) {
      const gone = existed ? `${kind.one} ${rest} was deleted.` : `There is no ${kind.one[0].toLowerCase()}${kind.one.slice(1)} ${rest}.`;
      box.replaceChildren(...t.refused.map(refusal), h('p', { role: 'status' }, t.ready ? gone : 'Reading…'),
        h('p', {}, link(name, `All ${kind.title}`), ' ', existed ? link('changes', 'Changes') : null));
      if (t.ready) why?.remove();
      return;
    }
    existed = true;
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

const most = 100; // ports of a network

function parts(name, row) {
  if (name === 'nodes') return [h('h2', {}, 'Problems'), problemList(row.problems)];
  if (name === 'networks') return portsOf(row);
  if (name !== 'pods') return [];
  return [h('h2', {}, 'Interfaces'), simpleTable(['Interface', 'Network', 'Addresses', 'MAC', 'Logical port'],
    row.interfaces.map(i => [i.interface, i.network, i.addresses.join(' '), i.mac ?? '', i.port ?? '']), 'The pod has no interface yet.')];
}

// portsOf lists the ports of a network.
function portsOf(network) {
  const rows = [];
  for (const pod of table('pods').rows.values()) {
    for (const i of pod.interfaces) {
      if (i.port && i.network === network.name) rows.push([link(`pods/${kinds.pods.name(pod)}`, kinds.pods.name(pod)), i.interface, i.addresses.join(' '), i.mac ?? '', i.port]);
    }
  }
  return [h('h2', {}, 'Ports'), simpleTable(['Pod', 'Interface', 'Addresses', 'MAC', 'Logical port'], rows.slice(0, most), 'No pod is on the network.'),
    rows.length > most ? h('p', {}, `And ${rows.length - most} more.`) : ''];
}

// simpleTable is a table of texts that is short. On a narrow screen, each cell is a line with the name of its column.
export function simpleTable(heads, rows, empty) {
  if (rows.length === 0) return h('p', {}, empty);
  return h('table', {}, h('thead', {}, h('tr', {}, heads.map(head => h('th', { scope: 'col' }, head)))),
    h('tbody', {}, rows.map(cells => h('tr', {}, cells.map((cell, i) => h('td', { 'data-head': heads[i] }, cell))))));
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
