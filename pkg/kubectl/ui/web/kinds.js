// The tables of the page: their columns, the way to a row's own page, and what can be asked about it.

import { h, link, pill } from './dom.js';
import { counts, table } from './store.js';

// A column with a place is shown on a narrow screen: a and b are the first line, c and d the second, e is the third. A column that is
// wide is left out on a screen of medium width.
const addresses = row => row.interfaces.flatMap(i => i.addresses).join(' ');
const macs = row => row.interfaces.map(i => i.mac).filter(Boolean).join(' ');
const state = { name: 'State', value: row => row.state, cell: row => pill(row.state), width: 'minmax(7rem, .6fr)', place: 'b' };
const message = { name: 'Message', value: row => row.message, width: 'minmax(0, 2fr)', wide: true };
const list = (name, field, width, more) => ({ name, value: row => row[field].join(' '), width, ...more });
const count = (name, field, more) => ({ name, value: row => row[field] ?? 0, cell: row => String(row[field] ?? ''), width: 'minmax(4rem, .3fr)', ...more });
const namespace = { name: 'Namespace', value: row => row.namespace, width: 'minmax(6rem, 1fr)', place: 'c' };
const titled = { name: 'Name', value: row => row.name, place: 'a' };
const ofKind = { name: 'Kind', value: row => row.kind, width: 'minmax(0, 1.2fr)', place: 'd' };
const full = row => row.namespace ? `${row.namespace}/${row.name}` : row.name;
// rules describes a direction of a policy. A policy of a namespace without rules denies everything; a cluster-wide policy does nothing.
const rules = (row, count) => count === null || count === 0 && !row.namespace ? '' : count === 0 ? 'denies all' : `${count} rule${count === 1 ? '' : 's'}`;

const ports = counts('pods', row => row.onHost ? [] : row.interfaces.filter(i => i.port).map(i => i.network));
const nodes = counts('nodes', row => row.zone ? [row.zone] : []);
const derived = new WeakMap(); // row -> the row with a count
// withCount returns the same row for the same count, so that a table does not draw it again.
function withCount(row, field, value) {
  const had = derived.get(row);
  if (had?.[field] === value) return had;
  const made = { ...row, [field]: value };
  derived.set(row, made);
  return made;
}
const readsPods = () => table('pods').ready && table('pods').refused.length === 0;

export const kinds = {
  pods: {
    title: 'Pods', one: 'Pod',
    path: row => `pods/${full(row)}`, name: full, object: row => `pod/${full(row)}`,
    addresses: row => row.interfaces.flatMap(i => i.addresses), macs: row => row.interfaces.map(i => i.mac).filter(Boolean),
    where: row => row.node,
    columns: [
      namespace, { ...titled, width: 'minmax(0, 1.3fr)' }, { name: 'Node', value: row => row.node, width: 'minmax(0, .7fr)', place: 'd' }, state,
      { name: 'Addresses', value: addresses, width: 'minmax(0, 2.2fr)', place: 'e' }, { name: 'MAC', value: macs, width: 'minmax(0, 9.5rem)', wide: true },
      { name: 'Ports', value: row => (row.ports ?? []).join('; '), wide: true },
    ],
  },
  nodes: {
    title: 'Nodes', one: 'Node',
    path: row => `nodes/${row.name}`, name: row => row.name, object: row => `node/${row.name}`,
    addresses: row => row.addresses, macs: row => row.macs, where: row => row.subnets.join(' '),
    columns: [
      titled, state, count('Pods', 'pods', { place: 'd', unit: 'pods' }), count('Free', 'free', { wide: true }),
      list('Subnets', 'subnets', 'minmax(0, 1.8fr)', { place: 'e' }), { name: 'Zone', value: row => row.zone, width: 'minmax(0, .6fr)', wide: true },
      { name: 'Tunnel', value: row => row.tunnel, width: 'minmax(0, .9fr)', place: 'c' },
      { name: 'Gateway', value: row => row.gateway, width: 'minmax(0, 1.8fr)', wide: true },
      { name: 'Problems', value: row => row.problems.length, cell: row => String(row.problems.length || ''), width: 'minmax(5.5rem, .3fr)' },
    ],
  },
  networks: {
    title: 'Networks', one: 'Network', also: ['pods'],
    path: row => `networks/${row.name}`, name: row => row.cluster ? 'cluster network' : row.name, where: row => row.subnets.join(' '),
    // The status of a Network has the count, too, for a user who may not read pods.
    derive: row => withCount(row, 'ports', readsPods() ? ports().get(row.name) ?? 0 : row.cluster ? null : row.ports),
    columns: [
      { ...titled, value: row => row.cluster ? 'cluster network' : row.name }, { name: 'Topology', value: row => row.topology, place: 'c' }, state,
      list('Subnets', 'subnets', 'minmax(0, 1.5fr)', { place: 'e' }), count('Ports', 'ports', { place: 'd', unit: 'ports' }), message,
    ],
  },
  zones: {
    title: 'Zones', one: 'Zone', also: ['nodes'],
    path: row => `zones/${row.name}`, name: row => row.name, addresses: row => row.addresses, where: row => row.selector,
    derive: row => withCount(row, 'nodes', nodes().get(row.name) ?? 0),
    columns: [
      titled, state, count('Nodes', 'nodes', { place: 'd', unit: 'nodes' }), { name: 'Databases', value: row => row.node, place: 'c' },
      list('Addresses', 'addresses', undefined, { wide: true }), { name: 'Selects', value: row => row.selector, width: 'minmax(0, 1.5fr)', place: 'e' }, message,
    ],
  },
  services: {
    title: 'Services', one: 'Service',
    path: row => `services/${full(row)}`, name: full, object: row => `svc/${full(row)}`,
    addresses: row => row.addresses, where: row => row.type,
    columns: [
      namespace, titled, { name: 'Type', value: row => row.type, place: 'b' },
      list('Addresses', 'addresses', 'minmax(0, 1.6fr)', { place: 'e' }), list('Ports', 'ports', 'minmax(0, 1.6fr)', { place: 'd' }),
    ],
  },
  balancers: {
    title: 'Load balancer pools', one: 'Load balancer pool',
    path: row => `balancers/${row.name}`, name: row => row.name, addresses: row => row.addresses, where: row => row.ranges.join(' '),
    columns: [
      titled, { name: 'Class', value: row => row.class, width: 'minmax(0, 1.3fr)', place: 'c' }, list('Ranges', 'ranges', 'minmax(0, 1.5fr)', { place: 'e' }),
      count('Total', 'total'), count('Used', 'used', { place: 'd', unit: 'used' }), count('Free', 'free'), state,
      list('Answers', 'nodes', 'minmax(0, 1.5fr)', { wide: true }),
    ],
  },
  policies: {
    title: 'Policies', one: 'Policy',
    path: row => `policies/${row.kind}/${full(row)}`, name: full,
    where: row => row.kind,
    columns: [
      { ...ofKind, place: 'c' }, { ...namespace, place: 'b' }, titled,
      { name: 'Order', value: row => row.order, wide: true }, { name: 'Pods', value: row => row.subject, width: 'minmax(0, 1.5fr)', place: 'e' },
      { name: 'Ingress', value: row => rules(row, row.ingress), place: 'd' }, { name: 'Egress', value: row => rules(row, row.egress), wide: true },
    ],
  },
  egress: {
    title: 'Egress', one: 'Egress object',
    path: row => `egress/${row.kind}/${full(row)}`, name: full, addresses: row => row.addresses, where: row => row.kind,
    columns: [
      ofKind, namespace, titled, state, { name: 'Pods', value: row => row.subject, width: 'minmax(0, 1.5fr)', wide: true },
      { name: 'How', value: row => row.how.join('; '), width: 'minmax(0, 2fr)', place: 'e' }, message,
    ],
  },
  bgp: {
    title: 'BGP', one: 'BGP object',
    path: row => `bgp/${row.kind}/${row.name}`, name: row => row.name, addresses: row => row.addresses, where: row => row.kind,
    columns: [
      { ...ofKind, place: 'c' }, titled, state, { name: 'What', value: row => row.what, width: 'minmax(0, 2.5fr)', place: 'e' },
      { name: 'Nodes', value: row => row.nodes, width: 'minmax(0, .7fr)', place: 'd', unit: 'nodes' }, message,
    ],
  },
  pools: {
    title: 'IP pools', one: 'IP pool',
    path: row => `pools/${row.name}`, name: row => row.name, where: row => row.location,
    columns: [
      titled, { name: 'Location', value: row => row.location, place: 'c' }, list('Ranges', 'ranges', 'minmax(0, 1.5fr)', { place: 'e' }),
      count('Total', 'total'), count('Used', 'used', { place: 'd', unit: 'used' }), count('Kept', 'kept'), state,
    ],
  },
  addresses: {
    title: 'Floating IPs', one: 'Floating IP',
    path: row => `addresses/${row.address}`, name: row => row.address, addresses: row => [row.address], where: row => row.pod ?? row.holder,
    columns: [
      { name: 'Address', value: row => row.address, place: 'a' }, { name: 'Pool', value: row => row.pool, place: 'c' }, state,
      { name: 'Holder', value: row => row.holder, width: 'minmax(0, 1.5fr)', place: 'e' }, { name: 'Pod', value: row => row.pod },
      { name: 'Node', value: row => row.node, place: 'd' }, { name: 'Release', value: row => row.policy, wide: true },
      { name: 'Since', value: row => row.since ?? '', wide: true },
    ],
  },
};

// rowsOf are the rows of a table: [id, row].
export function rowsOf(name) {
  const { derive } = kinds[name], all = [...table(name).rows];
  return derive ? all.map(([id, row]) => [id, derive(row)]) : all;
}

// rowOf finds a row by its identifier: {table, row}. A Node has the row of its NodeNetwork.
export function rowOf(id, name) {
  const known = id.replace(/^Node\//, 'NodeNetwork/');
  for (const each of name ? [name] : Object.keys(kinds)) {
    const row = table(each).rows.get(known);
    if (row) return { table: each, row };
  }
  return null;
}

// onMap are the tables whose objects the map can select.
export const onMap = ['pods', 'nodes', 'networks', 'services', 'policies', 'egress'];

// actions are the links from a row to the views that answer questions about it.
export function actions(name, row) {
  const kind = kinds[name], all = [];
  if (onMap.includes(name)) all.push(link(`map/${kind.path(row)}`, 'On the map'));
  if (kind.object) all.push(link(`topology/${kind.object(row)}`, 'Topology around it'));
  if (name === 'pods') {
    all.push(link(`trace?from=${encodeURIComponent(full(row))}`, 'Trace from it'), link(`trace?to=${encodeURIComponent(full(row))}`, 'Trace to it'),
      link(`reach/${full(row)}`, 'Who may reach it'));
  }
  if (name === 'services') all.push(link(`trace?to=${encodeURIComponent(`svc/${full(row)}`)}`, 'Trace to it'));
  if (name === 'addresses' && row.pod) all.push(link(`pods/${row.pod}`, 'Its pod'));
  return h('ul', { class: 'actions' }, all.map(each => h('li', {}, each)));
}
