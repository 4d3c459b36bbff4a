// Makes elements. Texts become text nodes, so that no name from the cluster is ever read as markup.

// h makes an element. Properties that begin with "on" are listeners; null and false leave an attribute out.
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// s makes an element of SVG.
export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

// The one policy of Trusted Types. Pictures come from this page's own server and are parsed as XML.
const parser = globalThis.trustedTypes?.createPolicy('weft-picture', { createHTML: text => text });

// picture parses SVG.
export function picture(text) {
  const source = parser ? parser.createHTML(text) : text;
  return document.importNode(new DOMParser().parseFromString(source, 'image/svg+xml').documentElement, true);
}

// announce has a screen reader say a text.
export function announce(text) {
  document.getElementById('announcer').textContent = text;
}

const moods = {
  good: ['Assigned', 'Established', 'Advertised', 'Available', 'Ready', 'Running', 'Used', 'allowed', 'accept', 'Good', 'Complete'],
  bad: ['Unavailable', 'Failed', 'dropped', 'rejected', 'deny', 'Blocked'],
  warn: ['Warning', 'Degraded', 'Pending', 'Terminating', 'Kept', 'Reserved', 'unknown', 'Unknown', 'Progressing', 'pass'],
};
const signs = { good: '✓', bad: '✕', warn: '!', calm: '·' };

// moodOf returns whether a state is good.
export function moodOf(state) {
  return Object.keys(moods).find(name => moods[name].includes(state)) ?? (/^Not |is false$/.test(state) ? 'bad' : 'calm');
}

// pill shows a state by a word, a sign and a colour.
export function pill(state) {
  const mood = moodOf(state);
  return h('span', { class: `pill ${mood}` }, h('span', { 'aria-hidden': 'true' }, signs[mood] + ' '), state);
}

// refusal describes why something could not be read, and the permission that is missing.
export function refusal(failed) {
  return h('div', { class: 'refusal', role: 'alert' },
    failed.right ? h('p', {}, h('strong', {}, 'You lack a permission: '), h('code', {}, failed.right)) : null,
    h('p', {}, failed.message));
}

// link is a link within the page.
export function link(path, text) {
  return h('a', { href: `#/${path}` }, text);
}
