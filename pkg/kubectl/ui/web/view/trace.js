import { get } from '../api.js';
import { announce, h, picture, pill, refusal } from '../dom.js';
import { table } from '../store.js';
import { zoomable } from '../zoom.js';

const suggestions = 12;
const fields = ['from', 'to', 'protocol', 'port', 'family', 'node'];

// traceView asks what the network does with a packet, and draws the answer.
export function traceView({ parameters, listen, signal, painted }) {
  const out = h('div', { class: 'answer', 'aria-live': 'polite' });
  const nodes = h('select', { name: 'node', id: 'trace-node' }, h('option', { value: '' }, 'the destination’s'));
  const form = h('form', { class: 'card trace', onsubmit: event => { event.preventDefault(); ask(); } },
    end('from', 'From', 'demo/client, an address, or outside'), end('to', 'To', 'demo/web-0, svc/demo/web, node/n1, an address'),
    choice('protocol', 'Protocol', [['tcp', 'TCP'], ['udp', 'UDP'], ['sctp', 'SCTP'], ['icmp', 'ICMP']]),
    field('port', 'Port', h('input', { name: 'port', id: 'trace-port', inputmode: 'numeric', size: '6', pattern: '[0-9]*', autocomplete: 'off' })),
    choice('family', 'Family', [['', 'both'], ['IPv4', 'IPv4'], ['IPv6', 'IPv6']]), field('node', 'Clients outside enter by', nodes),
    h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'allBackends', value: 'true' }), ' each backend of a service'),
    h('button', { type: 'submit', class: 'main' }, 'Trace'));
  listen(['nodes'], () => {
    const had = nodes.value || parameters.get('node');
    const names = [...table('nodes').rows.values()].map(row => row.name).sort();
    nodes.replaceChildren(nodes.options[0], ...names.map(name => h('option', { value: name }, name)));
    nodes.value = names.includes(had) ? had : '';
  });
  for (const name of fields) if (parameters.has(name) && name !== 'node') form.elements[name].value = parameters.get(name);
  form.elements.allBackends.checked = parameters.get('allBackends') === 'true';
  if (parameters.get('from') && parameters.get('to')) ask();
  painted();

  async function ask() {
    const request = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ''));
    history.replaceState(null, '', `#/trace?${request}`);
    out.replaceChildren(h('p', {}, 'Tracing…'));
    try {
      show(await get('trace', request, signal));
    } catch (failed) {
      if (!signal.aborted) out.replaceChildren(refusal(failed));
    }
  }

  function show({ answer, picture: text }) {
    const box = h('div', { class: 'picture way', tabindex: '0', role: 'group', 'aria-label': 'Picture of the ways; the lists above it say the same' });
    const same = answer.findings.every(f => f.why === answer.findings[0].why && f.result === answer.result);
    out.replaceChildren(
      h('h2', {}, pill(answer.result), ' ', answer.why ?? (same && answer.findings[0] ? reason(answer.findings[0]) : '')), ...answer.findings.map(f => finding(f, same)),
      ...(answer.notes ?? []).map(note => h('p', { class: 'note' }, note)), h('h2', {}, 'Picture'), box);
    box.append(picture(text));
    zoomable(box);
    announce(`${answer.result}: ${answer.findings[0]?.why ?? answer.why ?? ''}`);
  }

  return { title: 'Trace', element: h('div', {}, h('p', {}, 'OVN decides: ovn-trace runs beside the databases. No packet is sent.'), form, out) };
}

function field(name, text, input) { return h('div', { class: 'field' }, h('label', { for: `trace-${name}` }, text), input); }

function choice(name, text, options) {
  return field(name, text, h('select', { name, id: `trace-${name}` }, options.map(([value, words]) => h('option', { value }, words))));
}

// end is a field for an end of the way. It suggests pods and services whose names contain what was typed.
function end(name, text, hint) {
  const list = h('datalist', { id: `trace-${name}-list` });
  const suggest = event => {
    const words = event.target.value.toLowerCase(), found = [];
    for (const [kind, prefix] of [['pods', ''], ['services', 'svc/']]) {
      for (const row of table(kind).rows.values()) {
        const full = `${prefix}${row.namespace}/${row.name}`;
        if (found.length < suggestions && full.includes(words)) found.push(full);
      }
    }
    list.replaceChildren(...found.map(value => h('option', { value })));
  };
  return h('div', { class: 'field wide' }, h('label', { for: `trace-${name}` }, text),
    h('input', { name, id: `trace-${name}`, required: true, list: list.id, placeholder: hint, autocomplete: 'off', oninput: suggest, onfocus: suggest }), list);
}

// reason continues the result in words: "by NetworkPolicy demo/web, which isolates ...".
function reason({ result, by, why = '' }) {
  const name = by ? `${by.kind} ${by.namespace ? `${by.namespace}/` : ''}${by.name}` : '';
  return name && result !== 'allowed' && (why.startsWith(`${name},`) || why.startsWith(`${name} and `)) ? `by ${why}` : why;
}

// finding shows the answer about one packet. A verdict that all packets share is in the heading above them.
function finding(f, shared) {
  const port = f.port ? ` port ${f.port}` : '';
  return h('section', { class: 'card' },
    h('h3', {}, shared ? null : pill(f.result), ` ${f.family} ${f.protocol.toUpperCase()} ${f.from} → ${f.to}${port}${f.backend ? `, backend ${f.backend}` : ''}`),
    f.why && !shared ? h('p', {}, reason(f)) : null, hops(f.way, 'The way'), hops(f.reply, 'The reply'),
    (f.noBackends ?? []).length ? h('p', { class: 'note' }, `No backend: ${f.noBackends.join(', ')}`) : null);
}

function hops(way, title) {
  if (!way?.length) return null;
  return h('details', { open: title === 'The way' }, h('summary', {}, title), h('ol', {}, way.map(hop => h('li', {}, hop.what))));
}
