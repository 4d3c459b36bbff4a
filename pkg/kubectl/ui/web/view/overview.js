import { announce, h, link, pill, refusal } from '../dom.js';
import * as store from '../store.js';

// overviewView shows the health of the network, its problems, and what to do.
export function overviewView({ listen, painted }) {
  const box = h('div', {});
  let before = null;
  listen(['health'], () => {
    const { health } = store;
    if (!health) { box.replaceChildren(h('p', { role: 'status' }, 'Reading…')); return; }
    box.replaceChildren(...(health.report ? report(health.report) : [refusal(health.refused)]));
    const problems = health.report?.problems.length;
    if (before !== null && problems !== before) announce(`${problems} problems`);
    before = problems;
    painted();
  });
  return { title: 'Overview', element: box };
}

function report(r) {
  const headline = r.healthy ? 'The network is healthy.' :
    r.networkHealthy ? `The network is healthy, but requests of ${r.refused.total} objects in namespaces wait.` : r.problems.length === 0 ? 'The network is changing.' :
    r.problems.length === 1 ? 'The network has a problem.' : `The network has ${r.problems.length} problems.`;
  const ready = r.nodes.filter(node => node.ready).length;
  return [
    h('p', { class: r.healthy ? 'headline good' : r.problems.length ? 'headline bad' : 'headline warn' }, headline),
    ...removing(r.removing),
    h('h2', {}, 'Areas'),
    h('ul', { class: 'areas' }, r.areas.map(area => h('li', { class: 'card' }, h('h3', {}, spaced(area.name)), pill(area.state), h('p', {}, area.message)))),
    h('h2', {}, 'Problems, worst first'), problemList(r.problems), ...unread(r.unread),
    h('h2', {}, 'Nodes'), h('p', {}, `${ready} of ${r.nodes.length} nodes are ready. `, link('nodes', 'All nodes')),
    h('ul', {}, r.nodes.filter(node => !node.ready).map(node => h('li', {}, link(`nodes/${node.name}`, node.name), ': ', node.message))),
    ...rollout(r.rollout), ...refused(r.refused), ...versions(r.versions),
  ];
}

function spaced(name) { return name.replace(/([a-z])([A-Z])/g, (_, before, after) => `${before} ${after.toLowerCase()}`); }

// problemList shows problems with their next steps.
export function problemList(problems) {
  if (problems.length === 0) return h('p', {}, 'None.');
  return h('ol', { class: 'problems' }, problems.map(p => h('li', { class: 'card' },
    h('p', {}, pill(p.state), ' ', h('strong', {}, p.reason), ' ', objects(p.object)), h('p', {}, p.message),
    p.nextStep ? h('p', { class: 'next' }, h('span', { 'aria-hidden': 'true' }, '→ '), h('span', { class: 'hidden' }, 'Next step: '), p.nextStep) : null)));
}

// unread names what the user may not read.
function unread(all = []) {
  return all.length ? [h('h3', {}, 'Not read'), h('ul', {}, all.map(each => h('li', {}, each)))] : [];
}

// pages are the views of kinds, by kind.
const pages = {
  NodeNetwork: 'nodes', IPPool: 'pools', Network: 'networks', Pod: 'pods', Service: 'services', FloatingIP: 'addresses', LoadBalancerPool: 'balancers',
  EgressIP: 'egress/EgressIP', ExternalRoute: 'egress/ExternalRoute', EgressFirewall: 'egress/EgressFirewall', EgressQoS: 'egress/EgressQoS',
  BGPPeer: 'bgp/BGPPeer', BGPAdvertisement: 'bgp/BGPAdvertisement',
};

// objects names the objects of a problem. Objects with a page are links.
function objects(text = '') {
  return text.split(', ').flatMap((object, i) => {
    const [kind, ...name] = object.split('/');
    return [i ? ', ' : '', pages[kind] ? link(`${pages[kind]}/${name.join('/')}`, object) : object];
  });
}

function removing(r) {
  if (!r) return [];
  return [h('h2', {}, 'Removal'), h('div', { class: 'card' }, h('p', {}, pill('Terminating'), ' ', r.message), h('p', { class: 'next' }, r.nextStep))];
}

function rollout(r) {
  if (!r || r.state === 'Complete') return [];
  return [h('h2', {}, `Rollout of ${r.version}`), h('p', {}, pill(r.state), ` stage ${r.stage}, ${r.nodesDone ?? 0} of ${r.nodes ?? 0} nodes. `, r.message ?? '')];
}

function refused(r) {
  if (!r) return [];
  return [h('h2', {}, 'Requests of namespaces'), h('p', {}, `${r.total} objects wait for what they request, or were refused it. They are no problem of the network.`),
    h('ul', {}, (r.reasons ?? []).map(each => h('li', {}, `${each.reason} of ${each.total} ${each.kind}s`))),
    h('ul', {}, (r.first ?? []).map(each => h('li', {}, h('strong', {}, ...objects(each.object)), ': ', each.message)))];
}

function versions(all = []) {
  return all.length ? [h('h2', {}, 'Versions'), h('p', {}, all.map(v => `${v.name} ${v.version}`).join(', '))] : [];
}
