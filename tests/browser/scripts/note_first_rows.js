// Milliseconds from the beginning of the navigation to the frame that shows tasks of an instance.
window.rowsMs = null;
const watching = new MutationObserver(() => {
  if (!document.querySelector('#grid .instance .task')) return;
  watching.disconnect();
  requestAnimationFrame(() => { window.rowsMs = performance.now(); });
});
watching.observe(document, {subtree: true, childList: true});
