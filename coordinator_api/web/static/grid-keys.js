// Keys and tips of the grid. Tab reaches one task of the grid. Arrow keys move from this task to others. Home and End
// move to the ends of the row. With Control, Home and End move to the ends of the grid. Hover and focus show the numbers
// of a task in one tip element.

const grid = () => document.getElementById("grid");
const tip = document.getElementById("tip");
let current = ""; // the id of the task that Tab reaches
let tipped = null;

function chipsOf(row) {
  return [...row.querySelectorAll(".task")];
}

function rows() {
  return [...grid().querySelectorAll('[role="row"]')].filter((row) => row.querySelector(".task"));
}

function makeCurrent(chip) {
  const before = document.getElementById(current);
  if (before && before !== chip) before.tabIndex = -1;
  chip.tabIndex = 0;
  current = chip.id;
}

/** Removes all tasks but one from the tab order. Call it after the grid has changed. */
function settle() {
  const of = grid();
  if (!of) return;
  let kept = null;
  for (const chip of of.querySelectorAll(".task")) {
    if (chip.id === current) kept = chip;
    if (chip.tabIndex !== -1) chip.tabIndex = -1;
  }
  kept ??= of.querySelector(".task");
  if (kept) makeCurrent(kept);
  if (tipped && !tipped.isConnected) hide();
  else if (tipped) say(tipped);
}

function go(chip) {
  if (!chip) return;
  makeCurrent(chip);
  chip.focus();
}

function beside(chip, step) {
  const row = chip.closest('[role="row"]');
  const at = chipsOf(row).indexOf(chip) + step;
  const found = chipsOf(row)[at];
  if (found) return found;
  const all = rows();
  const next = all[all.indexOf(row) + step];
  return next && chipsOf(next).at(step > 0 ? 0 : -1);
}

function above(chip, step) {
  const all = rows();
  const row = chip.closest('[role="row"]');
  const place = chipsOf(row).indexOf(chip);
  const next = all[Math.max(0, Math.min(all.length - 1, all.indexOf(row) + step))];
  return next === row ? null : chipsOf(next)[Math.min(place, chipsOf(next).length - 1)];
}

function end(chip, key, whole) {
  if (whole) grid().dispatchEvent(new CustomEvent("grid:reveal", { detail: key === "End" ? "last" : "first" }));
  const row = whole ? rows().at(key === "End" ? -1 : 0) : chip.closest('[role="row"]');
  return chipsOf(row).at(key === "End" ? -1 : 0);
}

function onKey(event) {
  if (event.key === "Escape") hide();
  const chip = event.target.closest?.("#grid .task");
  if (!chip || event.altKey || event.metaKey || event.shiftKey) return;
  const found = {
    ArrowRight: () => beside(chip, 1),
    ArrowLeft: () => beside(chip, -1),
    ArrowDown: () => above(chip, 1),
    ArrowUp: () => above(chip, -1),
    PageDown: () => above(chip, 10),
    PageUp: () => above(chip, -10),
    Home: () => end(chip, "Home", event.ctrlKey),
    End: () => end(chip, "End", event.ctrlKey),
  }[event.key];
  if (!found) return;
  event.preventDefault();
  go(found());
}

function say(chip) {
  if (chip.title) {
    chip.dataset.tip = chip.title;
    chip.removeAttribute("title");
  }
  if (tip.textContent !== chip.dataset.tip) tip.textContent = chip.dataset.tip;
}

function show(chip) {
  if (tipped && tipped !== chip) hide();
  tipped = chip;
  say(chip);
  chip.setAttribute("aria-describedby", "tip");
  tip.hidden = false;
  const [at, own] = [chip.getBoundingClientRect(), tip.getBoundingClientRect()];
  const isBelow = at.top < own.height + 12;
  tip.style.left = `${Math.max(4, Math.min(at.left, document.documentElement.clientWidth - own.width - 4))}px`;
  tip.style.top = `${isBelow ? at.bottom + 6 : at.top - own.height - 6}px`;
}

function hide() {
  tipped?.removeAttribute("aria-describedby");
  tipped = null;
  tip.hidden = true;
}

export function startKeys() {
  document.addEventListener("keydown", onKey);
  document.addEventListener("focusin", (event) => {
    const chip = event.target.closest?.("#grid .task");
    if (!chip) return hide();
    makeCurrent(chip);
    show(chip);
  });
  document.addEventListener("mouseover", (event) => {
    const chip = event.target.closest?.("#grid .task");
    if (chip) show(chip);
    else if (tipped && tipped !== document.activeElement && event.target !== tip) hide();
  });
  window.addEventListener(
    "scroll",
    () => {
      if (!tipped) return;
      if (tipped === document.activeElement) show(tipped);
      else hide();
    },
    { passive: true },
  );
  document.addEventListener("grid:painted", settle, true);
  document.body.addEventListener("htmx:afterSettle", settle);
  settle();
}
