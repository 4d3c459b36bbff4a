// Lists what does not fit on the screen. The value of this script is a list of texts.
(() => {
  const wrong = [];
  const name = e => e.tagName.toLowerCase() + (e.id ? `#${e.id}` : '') + (typeof e.className === 'string' && e.className ? '.' + e.className.split(' ').join('.') : '');
  const seen = e => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
  const width = document.documentElement.clientWidth;
  for (const e of [document.documentElement, document.body, document.getElementById('main')]) {
    if (e.scrollWidth > e.clientWidth) wrong.push(`${name(e)} scrolls horizontally: ${e.scrollWidth} > ${e.clientWidth}`);
  }
  // A picture that can be moved may be larger than its box, and a link for the keyboard is beside the screen.
  for (const e of document.querySelectorAll('body *')) {
    if (!seen(e) || e.closest('.picture svg, .skip, .hidden')) continue;
    const { left, right } = e.getBoundingClientRect();
    if (right > width + 0.5 || left < -0.5) wrong.push(`${name(e)} is from ${left.toFixed(0)} to ${right.toFixed(0)}: ${e.textContent.trim().slice(0, 40)}`);
  }
  // Texts of controls and states are not cut off.
  for (const e of document.querySelectorAll('button, .pill, nav a, h1, .legend li, .card')) {
    if (seen(e) && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline') wrong.push(`${name(e)} is cut off: ${e.textContent.trim().slice(0, 40)}`);
  }
  return [...new Set(wrong)].slice(0, 20);
})()
