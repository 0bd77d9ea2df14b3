// When the document first is as it is asked for, in milliseconds since the epoch.
(argument) => {
  const isSo = %s;
  window.shownMs = null;
  const look = () => {
    if (window.shownMs !== null || !isSo(argument)) return;
    window.shownMs = performance.timeOrigin + performance.now();
  };
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
}
