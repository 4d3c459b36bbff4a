import { get } from '../api.js';
import { h, link, pill, refusal } from '../dom.js';
import { table } from '../store.js';
import { simpleTable } from './detail.js';

// reachView shows which policies select a pod, and whom they let reach it.
export function reachView({ rest, listen, signal, painted }) {
  const out = h('div', { 'aria-live': 'polite' });
  const list = h('datalist', { id: 'reach-list' });
  const input = h('input', { id: 'reach-pod', required: true, list: 'reach-list', value: rest, placeholder: 'demo/web-0', autocomplete: 'off', oninput: suggest });
  const form = h('form', { class: 'card trace', onsubmit: event => { event.preventDefault(); location.hash = `#/reach/${input.value.trim()}`; } },
    h('div', { class: 'field wide' }, h('label', { for: 'reach-pod' }, 'Pod'), input, list), h('button', { type: 'submit', class: 'main' }, 'Show'));

  function suggest() {
    const names = [...table('pods').rows.values()].map(row => `${row.namespace}/${row.name}`);
    list.replaceChildren(...names.filter(name => name.includes(input.value)).slice(0, 12).map(value => h('option', { value })));
  }

  let asked = null, shown = '';
  async function ask() {
    if (!rest || !table('pods').ready || !table('policies').ready || asked) return;
    asked = true;
    try {
      const answer = await get('reach', { pod: rest }, signal), text = JSON.stringify(answer);
      if (text !== shown) out.replaceChildren(...answered(answer));
      shown = text;
      painted();
    } catch (failed) {
      if (!signal.aborted) out.replaceChildren(refusal(failed));
    } finally {
      asked = null;
    }
  }
  listen(['policies', 'pods'], ask);
  if (!rest) painted();
  return { title: rest ? `Who may reach ${rest}` : 'Who may reach a pod', element: h('div', {}, form, out) };
}

function answered(a) {
  if (a.onHost) return [h('p', {}, 'The pod has its node’s network. No policy applies to it.')];
  return [
    ...a.unread.map(refusal), ...a.invalid.map(text => h('p', { class: 'note' }, text)),
    h('h2', {}, 'To the pod'), ...direction(a.ingress, 'everyone may reach the pod'), h('h2', {}, 'From the pod'), ...direction(a.egress, 'the pod may reach everyone'),
    h('p', {}, 'The pod’s own node always reaches it. ', link(`trace?to=${encodeURIComponent(a.pod)}`, 'Trace'), ' shows what OVN does with one packet.'),
  ];
}

function direction(d, what) {
  const summary = d.isolatedBy.length
    ? h('p', {}, pill('deny'), ` What no rule allows is denied by ${d.isolatedBy.join(', ')}.`)
    : h('p', {}, pill('accept'), ` No NetworkPolicy isolates the pod: ${what}, if no rule below denies it.`);
  return [summary, simpleTable(['Policy and rule', 'Action', 'Whom', 'Ports', 'Pods now'], d.rules.map(rule => [
    h('span', {}, rule.policy, h('br'), h('small', {}, `${rule.tier}, ${rule.rule}`)), pill(rule.action), rule.peers.join('; ') || 'nobody', rule.ports,
    pods(rule),
  ]), 'No rules.')];
}

function pods(rule) {
  if (rule.count === 0) return rule.peers.includes('everyone') ? 'all' : '';
  const names = rule.pods.map(name => h('li', {}, link(`pods/${name}`, name)));
  if (rule.count > rule.pods.length) names.push(h('li', {}, `and ${rule.count - rule.pods.length} more`));
  return h('details', { open: rule.count < 4 }, h('summary', {}, `${rule.count} pod${rule.count === 1 ? '' : 's'}`), h('ul', {}, names));
}
