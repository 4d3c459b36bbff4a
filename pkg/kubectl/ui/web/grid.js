// A table that makes elements only for the rows in sight, so that its size does not matter. It is an ARIA grid with one
// place in the order of Tab: the arrow keys, Page Up, Page Down, Home and End move between rows, Enter opens one.

import { h, announce } from './dom.js';
import { textOf } from './store.js';

const narrow = matchMedia('(max-width: 40rem)'); // as in app.css
const extra = 8; // rows above and below the sight
const order = new Intl.Collator('en', { numeric: true });

const classOf = column => [column.place ? `at-${column.place}` : 'off', column.wide ? 'wide' : ''].join(' ').trim();

// grid makes a table of {label, columns: [{name, value, cell, width}], open(id, row), find}. Its update takes the rows.
export function grid({ label, columns, open, filtered = true, shown = () => {} }) {
  let all = [], rows = [], sort = 0, down = false, active = null, height = 0; // of a row, as in app.css
  const made = new Map(); // id -> {row, element}
  const spacer = h('div', { class: 'spacer', role: 'presentation' });
  const body = h('div', { class: 'body', role: 'rowgroup', onscroll: () => draw(), onkeydown: pressed }, spacer);
  const heads = columns.map((column, i) => h('div', { role: 'columnheader', class: classOf(column), 'aria-colindex': i + 1, 'aria-sort': 'none' },
    h('button', { type: 'button', onclick: () => resort(i) }, column.name)));
  const box = h('div', { class: 'grid', role: 'grid', 'aria-label': label, 'aria-readonly': 'true', 'aria-colcount': columns.length },
    h('div', { role: 'rowgroup', class: 'head' }, h('div', { role: 'row', 'aria-rowindex': 1 }, heads)), body);
  for (const [name, some] of [['--columns', columns], ['--columns-medium', columns.filter(c => !c.wide)]]) {
    box.style.setProperty(name, some.map(c => c.width ?? 'minmax(0, 1fr)').join(' '));
  }
  const input = h('input', { type: 'search', autocomplete: 'off', oninput: () => { sift(); announce(`${rows.length} ${label}`); } });
  const count = h('span', { class: 'count' });
  const filter = h('div', { class: 'filter' }, h('label', {}, 'Filter ', input), count);
  const element = h('div', { class: 'sheet' }, filtered ? filter : null, box);
  new ResizeObserver(() => size()).observe(body);

  function update(entries) {
    all = entries;
    sift();
  }

  function size() {
    height = narrow.matches ? 84 : 36;
    spacer.style.height = `${rows.length * height}px`;
    draw();
  }

  // sift selects and sorts the rows.
  function sift() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows = all.filter(([, row]) => words.every(word => textOf(row).includes(word)));
    const keys = new Map(rows.map(([id, row]) => [id, columns[sort].value(row)]));
    rows.sort(([a], [b]) => compare(keys.get(a), keys.get(b)) * (down ? -1 : 1) || order.compare(a, b));
    heads.forEach((head, i) => head.setAttribute('aria-sort', i !== sort ? 'none' : down ? 'descending' : 'ascending'));
    count.textContent = rows.length === all.length ? `${all.length}` : `${rows.length} of ${all.length}`;
    box.setAttribute('aria-rowcount', rows.length + 1);
    size();
    shown(rows.length);
  }

  function compare(a, b) {
    return typeof a === 'number' && typeof b === 'number' ? a - b : order.compare(a ?? '', b ?? '');
  }

  function resort(i) {
    [down, sort] = [sort === i && !down, i];
    sift();
    announce(`sorted by ${columns[i].name}, ${down ? 'descending' : 'ascending'}`);
  }

  // draw makes the elements in sight. Elements of rows that have not changed are used again, so that focus stays.
  function draw() {
    const first = Math.max(0, Math.floor(body.scrollTop / height) - extra);
    const last = Math.min(rows.length, Math.ceil((body.scrollTop + body.clientHeight) / height) + extra);
    const focused = body.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    const stop = rows.slice(first, last).some(([id]) => id === active) ? active : rows[Math.min(rows.length - 1, first ? first + extra : 0)]?.[0];
    const kept = [];
    for (let i = first; i < last; i++) kept.push(place(i, stop));
    const ids = new Set(kept.map(e => e.dataset.id));
    for (const id of made.keys()) if (!ids.has(id)) made.delete(id);
    if (kept.length !== spacer.childElementCount || kept.some((e, i) => spacer.children[i] !== e)) spacer.replaceChildren(...kept);
    if (focused && document.activeElement?.dataset.id !== focused) made.get(focused)?.element.focus({ preventScroll: true });
  }

  function place(i, stop) {
    const [id, row] = rows[i];
    let entry = made.get(id);
    if (entry?.row !== row) made.set(id, entry = { row, element: make(id, row) });
    entry.element.style.top = `${i * height}px`;
    entry.element.setAttribute('aria-rowindex', i + 2);
    entry.element.tabIndex = id === stop ? 0 : -1;
    return entry.element;
  }

  function make(id, row) {
    const element = h('div', { role: 'row', class: 'row', onclick: () => open?.(id, row), onfocus: () => { active = id; } },
      columns.map((column, i) => {
        const content = column.cell ? column.cell(row) : String(column.value(row) ?? '');
        return h('div', { role: 'gridcell', class: classOf(column), 'data-unit': content === '' ? null : column.unit, 'aria-colindex': i + 1, title: typeof content === 'string' ? content : null }, content);
      }));
    element.dataset.id = id;
    return element;
  }

  function pressed(event) {
    const at = rows.findIndex(([id]) => id === document.activeElement?.dataset.id);
    if (at < 0) return;
    const page = Math.max(1, Math.floor(body.clientHeight / height) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 }[event.key];
    if (event.key === 'Enter') open?.(...rows[at]);
    else if (to === undefined) return;
    else focus(Math.min(rows.length - 1, Math.max(0, to)));
    event.preventDefault();
  }

  // focus moves to a row, which may be out of sight.
  function focus(at) {
    active = rows[at][0];
    const top = at * height;
    if (top < body.scrollTop) body.scrollTop = top;
    if (top + height > body.scrollTop + body.clientHeight) body.scrollTop = top + height - body.clientHeight;
    draw();
    made.get(active)?.element.focus({ preventScroll: true });
  }

  return { element, update };
}
