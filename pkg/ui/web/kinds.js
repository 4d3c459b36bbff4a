// The tables of the page: their columns, the way to a row's own page, and what can be asked about it.

import { h, link, pill } from './dom.js';

const addresses = row => row.interfaces.flatMap(i => i.addresses).join(' ');
const macs = row => row.interfaces.map(i => i.mac).filter(Boolean).join(' ');
const state = { name: 'State', value: row => row.state, cell: row => pill(row.state), width: 'minmax(7rem, .6fr)' };
const list = (name, field, width) => ({ name, value: row => row[field].join(' '), width });
const count = (name, field) => ({ name, value: row => row[field] ?? 0, cell: row => String(row[field] ?? ''), width: 'minmax(4rem, .3fr)' });
const full = row => `${row.namespace}/${row.name}`;
// rules describes a direction of a policy. A NetworkPolicy without rules denies everything; a cluster-wide policy does nothing.
const rules = (row, count) => count === null || count === 0 && row.kind !== 'NetworkPolicy' ? '' :
  count === 0 ? 'denies all' : `${count} rule${count === 1 ? '' : 's'}`;

export const kinds = {
  pods: {
    title: 'Pods', one: 'Pod',
    path: row => `pods/${full(row)}`, name: full, object: row => `pod/${full(row)}`,
    addresses: row => row.interfaces.flatMap(i => i.addresses), macs: row => row.interfaces.map(i => i.mac).filter(Boolean),
    where: row => row.node,
    columns: [
      { name: 'Namespace', value: row => row.namespace }, { name: 'Name', value: row => row.name, width: 'minmax(0, 1.3fr)' },
      { name: 'Node', value: row => row.node, width: 'minmax(0, .7fr)' }, state,
      { name: 'Addresses', value: addresses, width: 'minmax(0, 2.2fr)' }, { name: 'MAC', value: macs, width: 'minmax(0, 9.5rem)' },
      { name: 'Ports', value: row => (row.ports ?? []).join('; ') },
    ],
  },
  nodes: {
    title: 'Nodes', one: 'Node',
    path: row => `nodes/${row.name}`, name: row => row.name, object: row => `node/${row.name}`,
    addresses: row => row.addresses, macs: row => row.macs, where: row => row.subnets.join(' '),
    columns: [
      { name: 'Name', value: row => row.name }, state, count('Pods', 'pods'), count('Free', 'free'),
      list('Subnets', 'subnets', 'minmax(0, 1.8fr)'), { name: 'Tunnel', value: row => row.tunnel, width: 'minmax(0, .9fr)' },
      { name: 'Gateway', value: row => row.gateway, width: 'minmax(0, 1.8fr)' },
      { name: 'Problems', value: row => row.problems.length, cell: row => String(row.problems.length || ''), width: 'minmax(5.5rem, .3fr)' },
    ],
  },
  networks: {
    title: 'Networks', one: 'Network',
    path: row => `networks/${row.name}`, name: row => row.name, where: row => row.subnets.join(' '),
    columns: [
      { name: 'Name', value: row => row.name }, { name: 'Topology', value: row => row.topology }, state,
      list('Subnets', 'subnets', 'minmax(0, 1.5fr)'), count('Ports', 'ports'), { name: 'Message', value: row => row.message, width: 'minmax(0, 2fr)' },
    ],
  },
  services: {
    title: 'Services', one: 'Service',
    path: row => `services/${full(row)}`, name: full, object: row => `svc/${full(row)}`,
    addresses: row => row.addresses, where: row => row.type,
    columns: [
      { name: 'Namespace', value: row => row.namespace }, { name: 'Name', value: row => row.name }, { name: 'Type', value: row => row.type },
      list('Addresses', 'addresses', 'minmax(0, 1.6fr)'), list('Ports', 'ports', 'minmax(0, 1.6fr)'),
    ],
  },
  policies: {
    title: 'Policies', one: 'Policy',
    path: row => `policies/${row.kind}/${row.namespace ? full(row) : row.name}`, name: row => row.namespace ? full(row) : row.name,
    where: row => row.kind,
    columns: [
      { name: 'Kind', value: row => row.kind, width: 'minmax(0, 1.5fr)' }, { name: 'Namespace', value: row => row.namespace }, { name: 'Name', value: row => row.name },
      { name: 'Order', value: row => row.order }, { name: 'Pods', value: row => row.subject, width: 'minmax(0, 1.5fr)' },
      { name: 'Ingress', value: row => rules(row, row.ingress) }, { name: 'Egress', value: row => rules(row, row.egress) },
    ],
  },
  pools: {
    title: 'IP pools', one: 'IP pool',
    path: row => `pools/${row.name}`, name: row => row.name, where: row => row.location,
    columns: [
      { name: 'Name', value: row => row.name }, { name: 'Location', value: row => row.location }, list('Ranges', 'ranges', 'minmax(0, 1.5fr)'),
      count('Total', 'total'), count('Used', 'used'), count('Kept', 'kept'), state,
    ],
  },
  addresses: {
    title: 'Floating IPs', one: 'Floating IP',
    path: row => `addresses/${row.address}`, name: row => row.address, addresses: row => [row.address], where: row => row.pod ?? row.holder,
    columns: [
      { name: 'Address', value: row => row.address }, { name: 'Pool', value: row => row.pool }, state,
      { name: 'Holder', value: row => row.holder, width: 'minmax(0, 1.5fr)' }, { name: 'Pod', value: row => row.pod },
      { name: 'Node', value: row => row.node }, { name: 'Release', value: row => row.policy },
      { name: 'Since', value: row => row.since ?? '' },
    ],
  },
};

// actions are the links from a row to the views that answer questions about it.
export function actions(name, row) {
  const kind = kinds[name], all = [];
  if (kind.object) all.push(link(`topology/${kind.object(row)}`, 'Topology around it'));
  if (name === 'pods') {
    all.push(link(`trace?from=${encodeURIComponent(full(row))}`, 'Trace from it'), link(`trace?to=${encodeURIComponent(full(row))}`, 'Trace to it'),
      link(`reach/${full(row)}`, 'Who may reach it'));
  }
  if (name === 'services') all.push(link(`trace?to=${encodeURIComponent(`svc/${full(row)}`)}`, 'Trace to it'));
  if (name === 'addresses' && row.pod) all.push(link(`pods/${row.pod}`, 'Its pod'));
  return h('ul', { class: 'actions' }, all.map(each => h('li', {}, each)));
}
