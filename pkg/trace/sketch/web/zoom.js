// Moves and enlarges a picture: by keys, by the mouse, and by fingers. The picture's own coordinates stay as they are;
// only the viewBox changes.

const step = 0.2; // of the visible part
const factor = 1.25;
const deepest = 12; // pixels of the screen for one of the picture's

// zoomable makes the svg inside box movable. It returns functions that show all of it, or one of its parts.
export function zoomable(box) {
  const svg = box.querySelector('svg');
  const full = { x: 0, y: 0, width: svg.width.baseVal.value, height: svg.height.baseVal.value };
  let view = { ...full };
  svg.removeAttribute('width');
  svg.removeAttribute('height');

  const show = next => {
    const ratio = next.width / view.width;
    if (ratio < 1 && box.clientWidth / next.width > deepest) return;
    if (ratio > 1 && next.width > 4 * full.width && next.height > 4 * full.height) return;
    view = next;
    svg.setAttribute('viewBox', `${view.x} ${view.y} ${view.width} ${view.height}`);
  };
  // fit returns a part with the box's proportions, of which the upper left corner is given.
  const fit = (x, y, width) => ({ x, y, width, height: width * (box.clientHeight || 1) / (box.clientWidth || 1) });
  const home = () => {
    const proportion = (box.clientHeight || 1) / (box.clientWidth || 1);
    view = fit(0, 0, Math.max(full.width, 1));
    // A picture that is higher than the box begins at its top, at a size that can be read.
    if (full.height <= full.width * proportion * 1.5) view = fit(0, 0, Math.max(full.width, full.height / proportion));
    if (view.width < box.clientWidth) view = fit(0, 0, box.clientWidth);
    show({ ...view });
  };
  const zoom = (by, x = 0.5, y = 0.5) => show({
    x: view.x + view.width * x * (1 - 1 / by), y: view.y + view.height * y * (1 - 1 / by),
    width: view.width / by, height: view.height / by,
  });
  const move = (x, y) => show({ ...view, x: view.x + x, y: view.y + y });
  // reveal moves the picture so that a part of it is in the middle.
  const reveal = part => {
    const at = part.getBBox();
    show({ ...view, x: at.x + at.width / 2 - view.width / 2, y: at.y + at.height / 2 - view.height / 2 });
  };

  const keys = {
    ArrowLeft: () => move(-view.width * step, 0), ArrowRight: () => move(view.width * step, 0),
    ArrowUp: () => move(0, -view.height * step), ArrowDown: () => move(0, view.height * step),
    PageUp: () => move(0, -view.height), PageDown: () => move(0, view.height),
    '+': () => zoom(factor), '=': () => zoom(factor), '-': () => zoom(1 / factor), 0: home, Home: home,
  };
  box.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  });
  box.addEventListener('wheel', event => {
    const at = svg.getBoundingClientRect();
    if (event.ctrlKey) zoom(event.deltaY < 0 ? factor : 1 / factor, (event.clientX - at.x) / at.width, (event.clientY - at.y) / at.height);
    else move(event.deltaX * view.width / at.width, event.deltaY * view.width / at.width);
    event.preventDefault();
  }, { passive: false });
  let held = null;
  box.addEventListener('pointerdown', event => { held = { x: event.clientX, y: event.clientY, moved: false }; });
  box.addEventListener('pointermove', event => {
    if (!held || event.buttons === 0) return;
    const scale = view.width / svg.getBoundingClientRect().width;
    if (Math.abs(event.clientX - held.x) + Math.abs(event.clientY - held.y) < 3 && !held.moved) return;
    move((held.x - event.clientX) * scale, (held.y - event.clientY) * scale);
    held = { x: event.clientX, y: event.clientY, moved: true };
  });
  box.addEventListener('click', event => { if (held?.moved) event.stopPropagation(); held = null; }, true);
  home();
  return { home, zoom, reveal };
}

// find marks the parts whose text contains the words, and returns how many do.
export function find(box, words) {
  let first = null, count = 0;
  const wanted = words.trim().toLowerCase();
  for (const part of box.querySelectorAll('svg g')) {
    const hit = wanted !== '' && part.textContent.toLowerCase().includes(wanted);
    part.classList.toggle('found', hit);
    if (hit) { count++; first ??= part; }
  }
  return { count, first };
}

// start makes the picture of a page of its own movable, and its search work.
export function start() {
  const box = document.querySelector('.picture');
  const picture = zoomable(box);
  const input = document.getElementById('find');
  input.addEventListener('input', () => {
    const { count, first } = find(box, input.value);
    document.getElementById('found').textContent = input.value === '' ? '' : `${count} found`;
    if (first) picture.reveal(first);
  });
}
