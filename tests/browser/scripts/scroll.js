// A frame after the other, a quarter of a window each: the longest time of one, how many there were in a second, and how
// often the middle was not built.
async (frames) => {
  const frame = () => new Promise(requestAnimationFrame);
  const [tall, wide] = [window.innerHeight, window.innerWidth];
  let [longest, empty, before] = [0, 0, await frame()];
  const begin = before;
  for (let number = 0; number < frames; number++) {
    window.scrollBy(0, tall / 4);
    const now = await frame();
    longest = Math.max(longest, now - before);
    before = now;
    if (window.scrollY > tall && !document.elementFromPoint(wide / 2, tall / 2)?.closest('.instance')) empty++;
  }
  return {longest, empty, scrolled: window.scrollY, perSecond: (1000 * frames) / (before - begin)};
}
