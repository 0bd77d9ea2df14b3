() => {
  window.reachedByTab = new Set();
  addEventListener('focusin', (event) => window.reachedByTab.add(event.target));
}
