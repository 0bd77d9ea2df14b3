() => {
  const reached = (at) => window.reachedByTab.has(at)
    || (at.type === 'radio' && [...window.reachedByTab].some((one) => one.type === 'radio' && one.name === at.name));
  return [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
    .filter((at) => at.tabIndex >= 0 && !at.disabled && at.checkVisibility({visibilityProperty: true}) && !reached(at))
    .map((at) => at.outerHTML.slice(0, 120));
}
