// Lists what is wrong with the page. The value of this script is a list of texts.
(() => {
  const wrong = [];
  const name = e => e.tagName.toLowerCase() + (e.className && typeof e.className === 'string' ? '.' + e.className.split(' ').join('.') : '');
  const seen = e => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
  const roles = ['search', 'status', 'alert', 'log', 'grid', 'row', 'rowgroup', 'gridcell', 'columnheader', 'presentation', 'group', 'link', 'region', 'application'];
  const inside = { row: '[role=rowgroup], [role=grid]', gridcell: '[role=row]', columnheader: '[role=row]', rowgroup: '[role=grid]' };

  const label = e => [e.getAttribute('aria-label'), ...(e.labels ? [...e.labels].map(l => l.textContent) : []), e.alt, e.title,
    e.querySelector?.('title')?.textContent, e.matches('input, select') ? '' : e.textContent].find(text => text && text.trim());
  for (const e of document.querySelectorAll('input, select, button, a, summary, [role=link], [role=grid], [role=region], [role=log], nav')) {
    if (seen(e) && !label(e)) wrong.push(`${name(e)} has no name`);
  }
  for (const e of document.querySelectorAll('img')) if (!e.hasAttribute('alt')) wrong.push(`${name(e)} has no alt`);
  for (const e of document.querySelectorAll('[role]')) {
    const role = e.getAttribute('role');
    if (!roles.includes(role)) wrong.push(`${name(e)} has the unknown role ${role}`);
    if (inside[role] && !e.parentElement.closest(inside[role])) wrong.push(`${name(e)} is a ${role} outside of ${inside[role].replace(/[[\]]|role=/g, '')}`);
  }
  let before = 0;
  for (const e of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    const level = Number(e.tagName[1]);
    if (level > before + 1) wrong.push(`h${level} comes after h${before}`);
    before = level;
  }
  if (document.querySelectorAll('h1').length !== 1) wrong.push('there is not exactly one h1');
  if (!document.documentElement.lang) wrong.push('the page has no language');
  if (document.title === '') wrong.push('the page has no title');
  const ids = new Set();
  for (const e of document.querySelectorAll('[id]')) {
    if (ids.has(e.id)) wrong.push(`the id ${e.id} is there twice`);
    ids.add(e.id);
  }
  for (const attribute of ['aria-labelledby', 'aria-describedby', 'aria-controls', 'for', 'list']) {
    for (const e of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of e.getAttribute(attribute).split(' ')) if (!ids.has(id)) wrong.push(`${name(e)} refers to ${id}, which is not there`);
    }
  }
  for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) wrong.push(`${name(e)} changes the order of Tab`);

  // Contrast of texts with the first opaque ground behind them (WCAG 2.2, 1.4.3).
  const numbers = color => color.match(/[\d.]+/g).map(Number);
  const light = color => {
    const [r, g, b] = numbers(color).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const opaque = color => color !== 'none' && (numbers(color)[3] ?? 1) === 1;
  const ground = e => {
    const box = e instanceof SVGElement ? e.parentElement?.querySelector(':scope > rect') : null;
    if (box) return getComputedStyle(box).fill;
    for (let at = e; at; at = at.parentElement) if (opaque(getComputedStyle(at).backgroundColor)) return getComputedStyle(at).backgroundColor;
    return 'rgb(255, 255, 255)';
  };
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!own || e.matches('title, noscript, option, script') || !seen(e)) continue;
    const style = getComputedStyle(e), size = parseFloat(style.fontSize), text = e instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(text), light(ground(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
    if (contrast < (large ? 3 : 4.5)) wrong.push(`${name(e)} has contrast ${contrast.toFixed(1)}: ${e.textContent.trim().slice(0, 40)}`);
  }
  return [...new Set(wrong)];
})()
