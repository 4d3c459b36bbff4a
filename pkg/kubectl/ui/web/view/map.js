// Draws the network as a map: nodes are areas, networks are lines that stop at the nodes with their ports, and pods are points in their
// node. What selects a pod is above the map. A large network has a tile for each node, or for several, so that the number of elements
// is bounded.

import { get } from '../api.js';
import { h, link, moodOf, pill, s } from '../dom.js';
import { kinds, onMap, rowOf, rowsOf } from '../kinds.js';
import { table } from '../store.js';

const most = { pods: 600, nodes: 40, named: 150, namedTiles: 150, tiles: 600, lines: 6, selectors: 12, ways: 60, suggestions: 12 };
const order = new Intl.Collator('en', { numeric: true });
const used = ['nodes', 'pods', 'networks', 'zones', 'services', 'policies', 'egress'];
const asked = ['pods', 'services', 'policies', 'egress']; // the server knows what is around them
const ended = ['Succeeded', 'Failed'];

// mapView draws the whole network, a node (nodes/NAME), the nodes between two (between/FIRST/LAST), or what is around an object.
export function mapView({ rest, listen, signal, painted }) {
  const [name, ...words] = rest.split('/');
  const box = h('div', { class: 'map', role: 'group', 'aria-label': 'Map of the network. Tab moves through nodes and pods, Enter selects one.' });
  const chosen = h('div', {}), legend = h('ul', { class: 'legend', 'aria-label': 'Networks' });
  let around = null, drawn = '', asking = false;

  function draw() {
    if (!used.every(each => table(each).ready)) { chosen.replaceChildren(h('p', { role: 'status' }, 'Reading…')); return; }
    const subject = onMap.includes(name) ? rowsOf(name).map(([id, row]) => ({ table: name, id, row })).find(each => kinds[name].path(each.row) === rest) : null;
    const missing = rest && !subject && name !== 'between';
    const world = read(missing ? null : subject, name === 'between' ? words : null, around, box.clientWidth);
    const text = JSON.stringify(world);
    if (text === drawn) return;
    drawn = text;
    const focused = box.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
    chosen.replaceChildren(...['pods', 'nodes', 'networks'].flatMap(each => table(each).refused).map(refused => h('p', { class: 'note' }, refused.message)),
      missing ? h('p', { role: 'status' }, `There is no ${rest} on the map. `, link('map', 'Whole map')) : subject ? card(subject, world) : '');
    legend.replaceChildren(...world.networks.map(n => h('li', {}, h('span', { class: `line net${n.line}`, 'aria-hidden': 'true' }), link(`map/networks/${n.name}`, n.title), ` ${n.ports}`)));
    box.replaceChildren(world.areas.length ? picture(world) : h('p', {}, 'No node has a network yet.'));
    if (focused) [...box.querySelectorAll('a')].find(a => a.getAttribute('href') === focused)?.focus({ preventScroll: true });
    painted();
  }

  // ask asks the server what is around the object.
  async function ask() {
    if (!asked.includes(name) || asking) return;
    const [id] = rowsOf(name).find(([, row]) => kinds[name].path(row) === rest) ?? [];
    if (!id) return;
    asking = true;
    try {
      around = await get('around', { object: id }, signal);
    } catch { around = null; } // the object selects nothing, or was deleted
    asking = false;
    if (!signal.aborted) draw();
  }
  listen(used, () => { draw(); ask(); });
  const watch = new ResizeObserver(() => draw());
  watch.observe(box);
  signal.addEventListener('abort', () => watch.disconnect());
  const title = rest ? `Map: ${name === 'between' ? `${words[0]} to ${words[1]}` : words.slice(-2).join('/')}` : 'Map';
  return { title, element: h('div', {}, search(rest), legend, chosen, box) };
}

// search is the form that selects an object by its name.
function search(rest) {
  const found = () => {
    const wanted = input.value.trim().toLowerCase();
    if (!wanted) return [];
    return onMap.flatMap(each => [...table(each).rows.values()].filter(row => kinds[each].name(row).toLowerCase().includes(wanted))
      .map(row => ({ path: kinds[each].path(row), name: kinds[each].name(row), exact: kinds[each].name(row).toLowerCase() === wanted })));
  };
  const list = h('datalist', { id: 'map-list' });
  const input = h('input', { type: 'search', id: 'map-find', list: 'map-list', autocomplete: 'off', placeholder: 'pod, service, policy, network', oninput: () =>
    list.replaceChildren(...[...new Set(found().map(each => each.name))].slice(0, most.suggestions).map(value => h('option', { value }))) });
  const go = event => {
    event.preventDefault();
    const all = found(), hit = all.find(each => each.exact) ?? all[0];
    if (hit) location.hash = `#/map/${hit.path}`;
  };
  return h('form', { class: 'filter', onsubmit: go }, h('label', { for: 'map-find' }, 'Find '), input, list, h('button', { type: 'submit' }, 'Show'),
    h('span', { class: 'spring' }), rest ? link('map', 'Whole map') : null);
}

// card describes the object in words.
function card({ table: name, row }, world) {
  const kind = kinds[name], near = world.selectors.filter(each => !each.self);
  return h('div', { class: 'card' },
    h('p', {}, row.state ? [pill(row.state), ' '] : null, h('strong', {}, `${row.kind ?? kind.one} ${kind.name(row)}`), row.node ? [' on node ', link(`map/nodes/${row.node}`, row.node)] : null),
    name === 'pods' ? h('p', {}, row.interfaces.map(i => `${i.interface}: ${i.addresses.join(' ')} on ${i.network}`).join(' · ')) : null,
    name === 'pods' ? h('p', {}, near.length ? ['Selected by ', near.flatMap((each, i) => [i ? ', ' : '', link(each.path, `${each.kind} ${each.name}`)]), '.'] : 'No service or policy selects it.') :
      world.lit && name !== 'nodes' ? h('p', {}, `${world.lit.length} pod${world.lit.length === 1 ? '' : 's'}`) : null,
    h('p', {}, link(kind.path(row), 'Details')));
}

// read makes what the map shows from the tables. It is plain data.
function read(subject, between, around, width) {
  const pods = [...table('pods').rows].filter(([, row]) => row.node && !ended.includes(row.state)).map(([id, row]) => ({ id, row }));
  const byNode = Map.groupBy(pods, pod => pod.row.node);
  const zoned = new Map([...table('nodes').rows.values()].map(row => [row.name, row]));
  for (const name of byNode.keys()) if (!zoned.has(name)) zoned.set(name, { name, state: 'Unknown', subnets: [], message: 'not reported yet' });
  let nodes = [...zoned.values()].sort((a, b) => order.compare(a.name, b.name));
  if (between) nodes = nodes.filter(n => order.compare(n.name, between[0]) >= 0 && order.compare(n.name, between[1]) <= 0);
  const large = () => nodes.length > most.nodes || nodes.reduce((sum, n) => sum + (byNode.get(n.name)?.length ?? 0), 0) > most.pods;
  const home = subject?.table === 'nodes' ? subject.row.name : subject?.table === 'pods' && large() ? subject.row.node : null;
  if (home) nodes = nodes.filter(n => n.name === home);

  const networks = rowsOf('networks').map(([, row]) => row).sort((a, b) => Boolean(b.cluster) - Boolean(a.cluster) || order.compare(a.name, b.name))
    .map((row, i) => ({ name: row.name, title: kinds.networks.name(row), line: Math.min(i, most.lines - 1), ports: row.ports ?? '' }));
  const lineOf = new Map(networks.map(n => [n.name, n.line]));
  const linesOf = row => [...new Set(row.interfaces.map(i => lineOf.get(i.network)).filter(line => line !== undefined))].sort();
  const lit = litPods(subject, around, pods, new Set(nodes.map(n => n.name)));
  const selectors = (subject && around?.selectors || []).map(id => ({ id, found: rowOf(id) })).filter(each => each.found)
    .map(({ id, found: { table: t, row } }) => ({ path: `map/${kinds[t].path(row)}`, table: t, kind: row.kind ?? kinds[t].one, name: kinds[t].name(row), self: id === subject.id }));
  const point = ({ id, row }) => ({ id, path: `map/${kinds.pods.path(row)}`, name: row.name, namespace: row.namespace, mood: moodOf(row.state), state: row.state,
    host: row.onHost, lines: linesOf(row), nets: row.interfaces.map(i => i.network), chosen: id === subject?.id });
  const stops = all => [...new Set(all.flatMap(pod => linesOf(pod.row)))].sort();
  const area = n => {
    const all = byNode.get(n.name) ?? [];
    return { name: n.name, mood: moodOf(n.state), state: n.state, detail: n.state === 'Ready' ? n.subnets.join(' ') : `${n.state}: ${n.message ?? ''}`, count: all.length, stops: stops(all),
      pods: all.slice(0, most.pods).map(point).sort((a, b) => order.compare(a.namespace, b.namespace) || order.compare(a.name, b.name)) };
  };
  const world = { width: Math.max(width, 260), networks, selectors, lit: lit && [...lit], line: subject?.table === 'networks' ? lineOf.get(subject.row.name) : null };
  if (large() && !home) return { ...world, tiled: true, areas: tiles(nodes, byNode, stops, lit) };
  return { ...world, areas: nodes.map(area), named: pods.filter(pod => nodes.some(n => n.name === pod.row.node)).length <= most.named };
}

// litPods are the pods that the object is, or has, or selects. It is null if all pods are shown alike.
function litPods(subject, around, pods, nodes) {
  if (!subject || subject.table === 'nodes') return null;
  if (subject.table === 'networks') return new Set(pods.filter(pod => !pod.row.onHost && pod.row.interfaces.some(i => i.network === subject.row.name)).map(pod => pod.id));
  const ids = new Set(around?.pods ?? [subject.id]);
  return new Set(pods.filter(pod => ids.has(pod.id) && (nodes.has(pod.row.node) || subject.table !== 'pods')).map(pod => pod.id));
}

// tiles groups nodes by zone. A tile is a node, or several if there are many.
function tiles(nodes, byNode, stops, lit) {
  const each = Math.ceil(nodes.length / most.tiles), zones = Map.groupBy(nodes, n => n.zone ?? '');
  return [...zones].sort(([a], [b]) => order.compare(a, b)).map(([zone, all]) => {
    const made = [];
    for (let i = 0; i < all.length; i += each) {
      const some = all.slice(i, i + each), pods = some.flatMap(n => byNode.get(n.name) ?? []), [first, last] = [some[0].name, some.at(-1).name];
      made.push({ name: some.length === 1 ? first : `${first} to ${last}`, path: some.length === 1 ? `map/nodes/${first}` : `map/between/${first}/${last}`,
        mood: some.find(n => moodOf(n.state) !== 'good') ? 'bad' : 'good', count: pods.length, state: some.find(n => n.state !== 'Ready')?.state ?? 'Ready',
        lit: lit ? pods.filter(pod => lit.has(pod.id)).map(pod => pod.id) : null });
    }
    return { name: zone ? `Zone ${zone}` : zones.size > 1 ? 'Outside the zones' : 'All nodes', count: all.length, stops: stops(all.flatMap(n => byNode.get(n.name) ?? [])), tiles: made };
  });
}

const gap = 12, lineGap = 8, firstGap = 20, cell = 17, nameHeight = 21;

// picture draws the world. Positions are pixels, because the picture has the width of its box.
function picture(world) {
  const lines = [...new Set(world.networks.map(n => n.line))], left = lines.length * lineGap + 10, at = new Map(); // identifier of a pod -> its point
  const layers = { lines: s('g'), areas: s('g'), ways: s('g'), points: s('g', { class: 'points' }), pills: s('g') };
  const pills = world.selectors.length ? drawPills(world, layers.pills) : [];
  let y = pills.length ? pills.at(-1).bottom + 34 : 0;
  const most = world.tiled ? 1 : Math.max(1, Math.floor((world.width - left + gap) / (250 + gap))), columns = Math.min(most, world.areas.length);
  const width = Math.min(world.tiled ? Infinity : 560, (world.width - left - (columns - 1) * gap) / columns);
  const trunks = new Map(); // line -> the first and the last height
  for (let row = 0; row * columns < world.areas.length; row++) {
    const some = world.areas.slice(row * columns, (row + 1) * columns), between = row ? lineGap : firstGap;
    const lineY = i => y + (row ? 6 : firstGap - 4) + i * between, top = lineY(lines.length - 1) + gap;
    lines.forEach((line, i) => {
      const last = some.findLastIndex(area => area.stops.includes(line));
      if (last < 0) return;
      const end = row ? left + last * (width + gap) + 16 + i * 14 : world.width - 2;
      const dim = world.line !== null && world.line !== undefined && world.line !== line ? ' dim' : '';
      layers.lines.append(s('path', { class: `line net${line}${dim}`, d: `M${4 + i * lineGap} ${lineY(i)}H${end}` }));
      if (!row) layers.points.append(s('text', { class: `small line-name${dim}`, x: world.width - 2, y: lineY(i) - 4, 'text-anchor': 'end' }, cut(lineTitle(world, line), world.width - left)));
      trunks.set(line, [trunks.get(line)?.[0] ?? lineY(i), lineY(i)]);
      some.forEach((area, c) => {
        const x = left + c * (width + gap) + 16 + i * 14;
        if (area.stops.includes(line)) layers.lines.append(s('path', { class: `line net${line}${dim}`, d: `M${x} ${lineY(i)}V${top}` }), s('circle', { class: `stop net${line}`, cx: x, cy: lineY(i), r: 3.5 }));
      });
    });
    const heights = some.map((area, c) => (area.tiles ? drawTiles : drawArea)(world, area, left + c * (width + gap), top, width, layers, at));
    const height = Math.max(...heights.map(each => each.height));
    heights.forEach(each => each.rect.setAttribute('height', height));
    y = top + height + 4;
  }
  lines.forEach((line, i) => {
    const [from, to] = trunks.get(line) ?? [0, 0];
    if (to > from) layers.lines.append(s('path', { class: `line net${line}`, d: `M${4 + i * lineGap} ${from}V${to}` }));
  });
  drawWays(world, pills, at, layers.ways);
  return s('svg', { width: world.width, height: y + 6, viewBox: `0 0 ${world.width} ${y + 6}`, role: 'group' }, Object.values(layers));
}

// lineTitle names the networks of a line. The last line may be of several.
function lineTitle(world, line) {
  const names = world.networks.filter(n => n.line === line).map(n => n.title);
  return names.length > 1 ? `${names.length} more networks` : names[0];
}

// cut shortens a text to a width in pixels.
function cut(text, width, size = 6.4) {
  const fits = Math.max(1, Math.floor(width / size));
  return text.length > fits ? `${text.slice(0, fits - 1)}…` : text;
}

const anchor = (path, label, properties, ...children) => s('a', { href: `#/${path}`, ...properties }, s('title', {}, label), children);

function drawArea(world, area, x, y, width, layers, at) {
  const rect = s('rect', { x, y, width, rx: 8 });
  const bad = area.mood === 'good' ? '' : ' bad';
  layers.areas.append(anchor(`map/nodes/${area.name}`, `Node ${area.name}, ${area.state}, ${area.count} pods`, { class: `area${bad}` }, rect));
  drawHeading(area, `${area.count} pod${area.count === 1 ? '' : 's'}`, bad, x, y, width, layers);
  layers.points.append(s('text', { class: 'small', x: x + 12, y: y + 40 }, cut(area.detail, width - 24)));
  let top = y + 52;
  if (!world.named) {
    const across = Math.floor((width - 20) / cell);
    area.pods.forEach((pod, i) => drawPod(world, pod, x + 18 + i % across * cell, top + 8 + Math.floor(i / across) * cell, layers, at, area.pods.length < 60 && world.areas.length === 1));
    return { rect, height: top - y + Math.ceil(area.pods.length / across) * cell + 10 };
  }
  const across = width >= 300 ? 2 : 1, part = (width - 24) / across;
  for (const [namespace, pods] of Map.groupBy(area.pods, pod => pod.namespace)) {
    layers.points.append(s('text', { class: 'small', x: x + 12, y: top + 12 }, cut(namespace, width - 24)));
    top += 20;
    pods.forEach((pod, i) => drawPod(world, pod, x + 20 + i % across * part, top + 9 + Math.floor(i / across) * nameHeight, layers, at, true, part - 26));
    top += Math.ceil(pods.length / across) * nameHeight + 4;
  }
  return { rect, height: top - y + 6 };
}

// drawHeading draws an area's name and count above the ways, which would cross them.
function drawHeading(area, count, bad, x, y, width, layers) {
  layers.points.append(s('g', { class: `area${bad}` }, s('text', { class: 'name', x: x + 12, y: y + 23 }, cut(area.name, width - 110, 8)),
    s('text', { class: 'small', x: x + width - 12, y: y + 23, 'text-anchor': 'end' }, count)));
}

// drawPod draws a point, with rings for the lines of secondary networks. Its name is drawn if it has room.
function drawPod(world, pod, x, y, layers, at, reached, room) {
  const dim = world.lit && !world.lit.includes(pod.id) ? ' dim' : '', bad = pod.mood === 'bad' || pod.mood === 'warn';
  at.set(pod.id, { x, y });
  layers.points.append(anchor(pod.path, `Pod ${pod.namespace}/${pod.name}, ${pod.state}, on ${pod.nets.join(', ')}`,
    { class: `pod ${bad ? 'bad' : pod.host ? 'host' : 'good'}${dim}${pod.chosen ? ' chosen' : ''}`, tabindex: reached ? null : -1 },
    bad ? s('path', { d: `M${x} ${y - 6}l6 6l-6 6l-6-6z` }) : s('circle', { cx: x, cy: y, r: 5 }),
    pod.lines.filter(line => line > 0).slice(0, 1).map(line => s('circle', { class: `ring net${line}`, cx: x, cy: y, r: 7.5 })),
    pod.chosen ? s('circle', { class: 'ring mark', cx: x, cy: y, r: 10.5 }) : null,
    room ? s('text', { x: x + 14, y: y + 4 }, cut(pod.name, room, 7)) : null));
}

function drawTiles(world, area, x, y, width, layers, at) {
  const named = world.areas.reduce((sum, each) => sum + each.tiles.length, 0) <= most.namedTiles;
  const [w, height] = named ? [width < 500 ? 74 : 96, 44] : [22, 22], across = Math.max(1, Math.floor((width - 20) / (w + 5)));
  const rect = s('rect', { x, y, width, rx: 8 });
  layers.areas.append(s('g', { class: 'area' }, rect));
  drawHeading(area, `${area.count} nodes`, '', x, y, width, layers);
  area.tiles.forEach((tile, i) => {
    const left = x + 12 + i % across * (w + 5), top = y + 36 + Math.floor(i / across) * (height + 5);
    for (const id of tile.lit ?? []) at.set(id, { x: left + w / 2, y: top });
    layers.points.append(anchor(tile.path, `${tile.name}, ${tile.state}, ${tile.count} pods`, { class: `tile ${tile.mood}${tile.lit?.length === 0 ? ' dim' : ''}`, tabindex: named ? null : -1 },
      s('rect', { x: left, y: top, width: w, height, rx: 4 }),
      named ? [s('text', { x: left + 8, y: top + 18 }, cut(tile.name, w - 12, 7)), s('text', { class: 'small', x: left + 8, y: top + 35 }, cut(`${tile.count} pods`, w - 12))] : null,
      !named && tile.mood === 'bad' ? s('path', { class: 'cross', d: `M${left + 6} ${top + 6}l10 10m0-10l-10 10` }) : null));
  });
  return { rect, height: 36 + Math.ceil(area.tiles.length / across) * (height + 5) + 8 };
}

// drawPills draws the services, policies and egress objects above the map, and returns where they are.
function drawPills(world, layer) {
  const shown = world.selectors.slice(0, most.selectors), places = [];
  let [x, y] = [0, 2];
  for (const each of shown) {
    const text = cut(`${each.kind} ${each.name}`, Math.min(300, world.width - 24), 7), w = Math.min(world.width, text.length * 7.2 + 24);
    if (x && x + w > world.width) [x, y] = [0, y + 34];
    layer.append(anchor(each.path, `${each.kind} ${each.name}`, { class: `selector ${each.table}${each.self ? ' chosen' : ''}` }, s('rect', { x: x + 1, y, width: w - 2, height: 28, rx: 14 }),
      s('text', { x: x + w / 2, y: y + 19, 'text-anchor': 'middle' }, text)));
    places.push({ x: x + w / 2, bottom: y + 28 });
    x += w + 8;
  }
  if (shown.length < world.selectors.length) layer.append(s('text', { class: 'small', x: 4, y: y + 44 }, `and ${world.selectors.length - shown.length} more`));
  return places;
}

// drawWays draws a line from each object to the pods that it selects, or to their tiles.
function drawWays(world, places, at, layer) {
  const ends = new Map((world.lit ?? []).filter(id => at.has(id)).map(id => [`${at.get(id).x} ${at.get(id).y}`, at.get(id)]));
  for (const { x, bottom } of places) {
    for (const end of [...ends.values()].slice(0, Math.ceil(most.ways / places.length))) {
      const middle = (bottom + end.y) / 2;
      layer.append(s('path', { class: 'way', d: `M${x} ${bottom}C${x} ${middle} ${end.x} ${middle} ${end.x} ${end.y}` }));
    }
  }
}
