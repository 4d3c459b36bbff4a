import { get } from '../api.js';
import { announce, h, link, picture, refusal } from '../dom.js';
import { find, zoomable } from '../zoom.js';

const help = 'Picture of the network. Tab moves to its parts and Enter opens the part around one. Arrow keys move the picture, ' +
  'plus and minus enlarge and reduce it, 0 shows it from the beginning.';

// topologyView draws the network, or the part around an object.
export function topologyView({ rest, signal, painted }) {
  const box = h('div', { class: 'picture', tabindex: '0', role: 'group', 'aria-label': help });
  const wait = h('p', { class: 'wait', role: 'status' }, 'Reading…');
  const failed = h('div', {});
  const found = h('span', { role: 'status', class: 'count' });
  let shown = null;
  const input = h('input', { type: 'search', autocomplete: 'off', oninput: () => {
    const { count, first } = find(box, input.value);
    found.textContent = input.value ? `${count} found` : '';
    if (first) shown?.reveal(first);
  } });
  const button = (text, label, act) => h('button', { type: 'button', 'aria-label': label, onclick: () => act(shown) }, text);
  const bar = h('div', { class: 'filter' }, h('label', {}, 'Find ', input), found, h('span', { class: 'spring' }),
    button('+', 'Enlarge', p => p?.zoom(1.25)), button('−', 'Reduce', p => p?.zoom(0.8)), button('⤢', 'Show it from the beginning', p => p?.home()),
    rest ? link('topology', 'Whole network') : null);
  get('topology', { object: rest }, signal).then(answer => {
    wait.remove();
    box.replaceChildren(parts(picture(answer.picture)));
    shown = zoomable(box);
    announce('The picture is drawn.');
    painted();
  }).catch(reason => { if (!signal.aborted) { wait.remove(); box.remove(); failed.replaceChildren(refusal(reason)); } });
  return { title: rest ? `Topology around ${rest}` : 'Topology', element: h('div', { class: 'fill' }, bar, wait, failed, box) };
}

// parts makes the parts of a picture with an object links to the part around that object.
function parts(svg) {
  svg.setAttribute('role', 'group');
  for (const part of svg.querySelectorAll('g[data-object]')) {
    const open = () => { location.hash = `#/topology/${part.dataset.object}`; };
    part.setAttribute('tabindex', '0');
    part.setAttribute('role', 'link');
    part.setAttribute('aria-label', part.querySelector('title').textContent);
    part.addEventListener('click', open);
    part.addEventListener('keydown', event => { if (event.key === 'Enter') open(); });
  }
  return svg;
}
