() => [...document.querySelectorAll('body *')]
  .filter((at) => at.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .filter((at) => {
    for (let up = at.parentElement; up; up = up.parentElement) {
      if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(up).overflowX)) return false;
    }
    return true;
  })
  .map((at) => `${at.tagName.toLowerCase()}.${at.className} ${(at.textContent || '').trim().slice(0, 40)}`)
  .slice(0, 5)
