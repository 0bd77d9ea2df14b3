// Moves and zooms the picture of a topology by its viewBox. Without this script, the picture scrolls in its region.
// Dragging and the arrow keys move it. The buttons, + and -, two fingers, and the wheel with Control zoom it. The
// server leaves the attributes of `data-keep` to this script when the live part is fetched again.

const READABLE = 0.7; // the smallest scale at first, in CSS pixels per unit of the picture
const LARGEST = 3;
const STEP = 1.25;
const SHARE = 0.15; // of the visible part, for one press of an arrow key

const picture = () => document.querySelector("svg.topology");
const pointers = new Map(); // id to position, of the pointers that are down
let view = null; // the visible part: x and y of its corner, and its scale

const size = (svg) => ({ width: Number(svg.dataset.width), height: Number(svg.dataset.height) });
const fit = (svg) => Math.min(1, svg.parentElement.clientWidth / size(svg).width);
const smallest = (svg) => Math.min(fit(svg), READABLE);

/** A corner between the edges of the picture; in the middle if the whole picture is visible. */
function clamped(corner, visible, whole) {
  return visible >= whole ? (whole - visible) / 2 : Math.max(0, Math.min(corner, whole - visible));
}

function apply() {
  const svg = picture();
  if (!svg) return;
  const { width, height } = size(svg);
  view ??= { x: 0, y: 0, scale: Math.max(fit(svg), READABLE) };
  view.scale = Math.max(smallest(svg), Math.min(view.scale, LARGEST));
  const wide = svg.parentElement.clientWidth;
  const tall = Math.min(Math.max(height, 200), 0.7 * window.innerHeight);
  view.x = clamped(view.x, wide / view.scale, width);
  view.y = clamped(view.y, tall / view.scale, height);
  svg.setAttribute("width", wide);
  svg.setAttribute("height", tall);
  svg.setAttribute("viewBox", `${view.x} ${view.y} ${wide / view.scale} ${tall / view.scale}`);
}

/** Zooms; the point of the picture at this place of the screen stays there. Without a place: the middle. */
function zoom(factor, place) {
  const svg = picture();
  if (!svg) return;
  const box = svg.getBoundingClientRect();
  const [x, y] = place ? [place.clientX - box.left, place.clientY - box.top] : [box.width / 2, box.height / 2];
  const scale = Math.max(smallest(svg), Math.min(view.scale * factor, LARGEST));
  view = { x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale, scale };
  apply();
}

function move(x, y) {
  view.x += x / view.scale;
  view.y += y / view.scale;
  apply();
}

function whole() {
  const svg = picture();
  if (!svg) return;
  view = { x: 0, y: 0, scale: fit(svg) };
  apply();
}

const ACTIONS = { in: () => zoom(STEP), out: () => zoom(1 / STEP), whole };

function onKey(event) {
  const svg = picture();
  if (!svg || event.target !== svg.parentElement || event.ctrlKey || event.altKey || event.metaKey) return;
  const [x, y] = [svg.clientWidth * SHARE, svg.clientHeight * SHARE];
  const found = {
    "+": ACTIONS.in,
    "=": ACTIONS.in,
    "-": ACTIONS.out,
    0: whole,
    ArrowLeft: () => move(-x, 0),
    ArrowRight: () => move(x, 0),
    ArrowUp: () => move(0, -y),
    ArrowDown: () => move(0, y),
  }[event.key];
  if (!found) return;
  event.preventDefault();
  found();
}

const distance = ([one, other]) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
const middle = ([one, other]) => ({ clientX: (one.clientX + other.clientX) / 2, clientY: (one.clientY + other.clientY) / 2 });

function onDrag(event) {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const apart = pointers.size === 2 ? distance([...pointers.values()]) : 0;
  pointers.set(event.pointerId, event);
  if (pointers.size === 1) move(before.clientX - event.clientX, before.clientY - event.clientY);
  else if (apart) zoom(distance([...pointers.values()]) / apart, middle([...pointers.values()]));
}

document.addEventListener("click", (event) => ACTIONS[event.target.closest?.("[data-zoom]")?.dataset.zoom]?.());
document.addEventListener("keydown", onKey);
document.addEventListener("pointerdown", (event) => {
  const svg = event.target.closest?.("svg.topology");
  if (!svg || event.button) return;
  svg.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, event);
});
document.addEventListener("pointermove", onDrag);
for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, (event) => pointers.delete(event.pointerId));
document.addEventListener(
  "wheel",
  (event) => {
    if (!event.ctrlKey || !event.target.closest?.("svg.topology")) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), event);
  },
  { passive: false },
);
window.addEventListener("resize", apply);
document.body.addEventListener("htmx:afterSettle", apply);
for (const each of document.querySelectorAll("[data-zoom]")) each.parentElement.hidden = false;
apply();
