(at) => {
  const box = at.getBoundingClientRect();
  const style = getComputedStyle(at);
  const ringed = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  const inView = box.width > 0 && box.height > 0 && box.bottom > 0 && box.right > 0
    && box.top < innerHeight && box.left < innerWidth;
  return {ringed: ringed || style.boxShadow !== 'none', inView};
}
