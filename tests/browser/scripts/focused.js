() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const words = (at.getAttribute('aria-label') || at.innerText || at.value || at.getAttribute('name') || '').trim();
  return {tag: at.tagName.toLowerCase(), id: at.id, words: words.replace(/\s+/g, ' ').slice(0, 80)};
}
