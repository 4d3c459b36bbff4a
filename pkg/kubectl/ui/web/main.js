// Starts the page: the key, the stream of changes, the navigation, and the view that the address names.

import { enter, follow } from './api.js';
import { h, link, refusal } from './dom.js';
import { kinds } from './kinds.js';
import * as store from './store.js';
import { changesView } from './view/changes.js';
import { detailView } from './view/detail.js';
import { mapView } from './view/map.js';
import { overviewView } from './view/overview.js';
import { reachView } from './view/reach.js';
import { searchView } from './view/search.js';
import { tableView } from './view/table.js';
import { topologyView } from './view/topology.js';
import { traceView } from './view/trace.js';

const main = document.getElementById('main');
const nav = document.getElementById('nav');
const query = document.getElementById('query');
const menuButton = document.getElementById('menu');

const views = {
  overview: overviewView, map: mapView, topology: topologyView, trace: traceView, reach: reachView, changes: changesView, search: searchView,
  ...Object.fromEntries(Object.keys(kinds).map(name => [name, context => context.rest ? detailView(name, context) : tableView(name, context)])),
};
const whole = ['overview', 'trace', 'changes']; // views without objects of their own
const menu = [
  ['overview', 'Overview'], ['map', 'Map'], ...Object.entries(kinds).map(([name, kind]) => [name, kind.title]),
  ['topology', 'Topology'], ['trace', 'Trace'], ['reach', 'Who may reach'], ['changes', 'Changes'],
];
const counts = {};

let leave = () => {};
let first = true;

// route shows the view that the address names: #/NAME/REST?PARAMETERS.
function route() {
  if (location.hash === '#main') return;
  const started = first ? 0 : performance.now();
  const [path, search = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = (path || 'overview').split('/').map(decoded);
  const known = Object.hasOwn(views, name) && !(rest.length && whole.includes(name));
  const view = known ? views[name] : missingView;
  leave();
  openMenu(false);
  const ends = new AbortController();
  const stops = [];
  const context = {
    path, rest: rest.join('/'), parameters: new URLSearchParams(search), signal: ends.signal,
    // listen calls a function now, and after changes of the tables that it names.
    listen: (names, listener) => { listener(); stops.push(store.listen(each => names.includes(each) && listener())); },
    // painted measures the time until the browser has painted what the view shows.
    painted: () => measure(name, started),
  };
  leave = () => { ends.abort(); stops.forEach(stop => stop()); };
  const { title, element } = view(context);
  document.title = `${title} - Weft`;
  main.replaceChildren(h('h1', { id: 'title', tabindex: '-1' }, title), element);
  for (const item of nav.querySelectorAll('a')) {
    if (item.dataset.name === name) item.setAttribute('aria-current', 'page');
    else item.removeAttribute('aria-current');
  }
  if (!first) document.getElementById('title').focus();
  first = false;
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

// missingView is the view of an address that names none.
function missingView({ path }) {
  return { title: 'No such page', element: h('p', {}, 'There is no page ', h('code', {}, path), '. ', link('overview', 'Overview')) };
}

// openMenu shows or hides the navigation of a narrow screen.
function openMenu(open) {
  nav.classList.toggle('open', open);
  menuButton.setAttribute('aria-expanded', String(open));
}

const measured = new Set();

function measure(name, start) {
  if (measured.has(start)) return;
  measured.add(start);
  requestAnimationFrame(() => setTimeout(() => performance.measure(`weft:${name}`, { start, end: performance.now() })));
}

function drawNav() {
  nav.replaceChildren(h('ul', {}, menu.map(([name, text]) => {
    const item = link(name, text);
    item.dataset.name = name;
    if (kinds[name] || name === 'overview') item.append(counts[name] = h('span', { class: 'number' }));
    return h('li', {}, item);
  })));
  store.listen(name => {
    if (name === 'health') {
      const problems = store.health.report?.problems.length ?? 0;
      counts.overview.textContent = problems || '';
      counts.overview.className = problems ? 'number bad' : 'number';
    } else if (counts[name]) counts[name].textContent = store.table(name).ready ? store.table(name).rows.size : '';
  });
}

function connection(text) {
  const element = document.getElementById('connection');
  element.textContent = text;
  element.className = text === 'live' ? 'live' : 'lost';
}

const pause = 2000; // milliseconds before another attempt

// stay follows the changes, and begins again when the stream ends.
async function stay() {
  for (;;) {
    try {
      await follow((name, data) => { connection('live'); store.receive(name, data); });
    } catch (failed) {
      if (failed.status === 401) { connection('not connected'); refuse(failed); return; }
    }
    connection('not connected: is kubectl weft ui still running?');
    await new Promise(done => setTimeout(done, pause));
  }
}

function refuse(failed) {
  leave();
  main.replaceChildren(h('h1', {}, 'No access'), refusal(failed));
}

function keys(event) {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  query.focus();
  event.preventDefault();
}

async function start() {
  drawNav();
  let session;
  try {
    session = await enter();
  } catch (failed) {
    refuse(failed);
    return;
  }
  document.getElementById('cluster').textContent = session.cluster;
  document.getElementById('search').addEventListener('submit', event => {
    event.preventDefault();
    location.hash = `#/search/${encodeURIComponent(query.value.trim())}`;
  });
  document.getElementById('skip').addEventListener('click', event => { event.preventDefault(); main.focus(); });
  menuButton.addEventListener('click', () => openMenu(!nav.classList.contains('open')));
  document.addEventListener('keydown', keys);
  addEventListener('hashchange', route);
  route();
  stay();
}

start();
