// The grid of a large group. Only the visible instances are built, from the data of /ui/groups/GROUP/grid.json. Only the
// newest data is stored. An element stays in the page while its task copy is visible. The server renders the grid of a
// small group.
import { countdown, duration } from "./countdown.js";
import { startKeys } from "./grid-keys.js";

const ROLES = { A: "active", S: "standby", W: "warm-up" };
const STANDINGS = { n: "stateless", a: "away", u: "unknown", c: "caught-up", b: "behind" };
const AROUND = 1; // the height that is built above and below the visible part, in heights of the window
const SVG = "http://www.w3.org/2000/svg";

const room = document.getElementById("grid-room");
let grid = null; // the element of the grid
let items = []; // headings and instances, each with its top and height
let address = "";
let etag = "";
let home = "";
let fetching = false;
let again = false;
let asked = 0;
const built = new Map(); // index to element

const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
const records = (number) => `${count(number)} record${number === 1 ? "" : "s"}`;
const source = () => document.getElementById("grid-source");

function chipOf(packed) {
  const [name, standing, lag = null, whole = null, left = null] = typeof packed === "string" ? [packed] : packed;
  return { key: name, task: name.slice(1), letter: name[0], role: ROLES[name[0]], standing: STANDINGS[standing] ?? "runs", lag, whole, left };
}

/** The text of a task copy, like Chip.text in grid.py. */
function chipText(chip) {
  if (chip.standing === "runs") return "runs";
  if (chip.standing === "stateless") return "has no state";
  if (chip.standing === "away") return "waits for its instance, which is away";
  if (chip.standing === "unknown") return "how far behind is not known";
  if (chip.standing === "caught-up") return chip.lag ? `caught up, ${records(chip.lag)} behind` : "caught up";
  const of = chip.whole ? ` of ${count(chip.whole)}` : "";
  const time = chip.left === null ? "time not known" : `about ${duration(Math.ceil(chip.left / 1000) * 1000)}`;
  return `${records(chip.lag)} left${of}, ${time}`;
}

function done(chip) {
  if (chip.standing !== "behind" || !chip.whole) return null;
  return Math.max(0, Math.min(99, Math.floor((100 * (chip.whole - chip.lag)) / chip.whole)));
}

function element(name, classes, text) {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  if (text !== undefined) made.textContent = text;
  return made;
}

function role(made, name) {
  made.setAttribute("role", name);
  return made;
}

// the sizes of elements that grid.css sets, in pixels

let sizes = null;

function measure() {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const longest = items.reduce((most, item) => Math.max(most, item.longest ?? 0), 4);
  const isNarrow = window.innerWidth < 46 * rem;
  const who = isNarrow ? 0 : 15 * rem;
  const name = isNarrow ? 0 : 7 * rem;
  const chip = Math.ceil((longest + 8) * 0.53 * rem);
  const gap = 0.35 * rem;
  const inside = grid.clientWidth - who - name - 2.2 * rem;
  sizes = {
    isNarrow,
    chip,
    line: 2.25 * rem,
    head: 3.9 * rem,
    name: isNarrow ? 1.6 * rem : 0,
    pad: 0.6 * rem,
    heading: 2.4 * rem,
    per: Math.max(1, Math.floor((inside + gap) / (chip + gap))),
  };
  grid.style.setProperty("--chip", `${chip}px`);
  grid.style.setProperty("--row", `${sizes.line}px`);
}

function layOut() {
  measure();
  let top = 0;
  for (const item of items) {
    item.top = top;
    if (item.heading !== undefined) {
      item.height = sizes.heading;
    } else {
      const threads = item.row.threads.map((thread) => Math.max(1, Math.ceil(thread[3].length / sizes.per)) * sizes.line + sizes.name);
      const all = threads.reduce((sum, each) => sum + each, 0);
      item.height = 2 * sizes.pad + (sizes.isNarrow ? sizes.head + all : Math.max(sizes.head, all));
    }
    top += item.height;
  }
  grid.style.height = `${Math.ceil(top)}px`;
}

// the visible part

function first(top) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].top + items[middle].height <= top) low = middle + 1;
    else high = middle;
  }
  return low;
}

function paint() {
  asked = 0;
  if (!grid || !items.length) return;
  const from = -grid.getBoundingClientRect().top;
  const tall = window.innerHeight;
  const begin = first(from - AROUND * tall);
  let end = begin;
  while (end < items.length && items[end].top < from + (1 + AROUND) * tall) end++;
  const focused = grid.contains(document.activeElement) ? document.activeElement.closest("[data-index]") : null;
  for (const [index, old] of built) {
    if ((index < begin || index >= end) && old !== focused) {
      old.remove();
      built.delete(index);
    }
  }
  for (let index = begin; index < end; index++) show(index);
  grid.dispatchEvent(new Event("grid:painted"));
}

function show(index) {
  const item = items[index];
  let block = built.get(index);
  if (!block) {
    block = element("div");
    block.dataset.index = index;
    built.set(index, block);
    const after = [...built.keys()].filter((each) => each > index).sort((one, other) => one - other)[0];
    grid.insertBefore(block, after === undefined ? null : built.get(after));
  }
  const at = `${item.top} ${item.height}`;
  if (block.dataset.at !== at) {
    block.dataset.at = at;
    block.style.transform = `translateY(${item.top}px)`;
    block.style.height = `${item.height}px`;
  }
  if (block.shown === item.text) return;
  block.shown = item.text;
  if (item.heading !== undefined) {
    block.className = "grid-heading";
    role(block, "row").replaceChildren(role(element("span", "", item.heading), "columnheader"));
  } else {
    fill(block, item.row);
  }
}

function fill(block, row) {
  const chips = new Map([...block.querySelectorAll(".task")].map((chip) => [chip.id, chip]));
  const focused = block.contains(document.activeElement) ? document.activeElement : null;
  block.className = "instance";
  role(block, "rowgroup").setAttribute("aria-label", row.name);
  const held = { A: 0, S: 0, W: 0 };
  for (const thread of row.threads) for (const packed of thread[3]) held[(typeof packed === "string" ? packed : packed[0])[0]]++;
  const head = role(element("div"), "rowheader");
  const name = element("b", "", row.name);
  name.title = `Process ${row.id}`;
  const roles = [`${count(held.A)} active`, held.S && `${count(held.S)} standby`, held.W && `${count(held.W)} warm-up`].filter(Boolean);
  head.append(name, element("span", "more", roles.join(", ")));
  if (row.away_until_ms) head.append(away(row.away_until_ms));
  else if (row.where) head.append(element("span", "more", row.where));
  const who = role(element("div", "who"), "row");
  who.append(head);
  const threads = row.threads.map(([called, member, fetched, packed]) => {
    const line = role(element("div", "thread"), "row");
    const title = role(element("div", "thread-name", called), "rowheader");
    title.prepend(element("span", "unseen", `${row.name}, `));
    title.title = fetched ? `Member ${member}` : `Member ${member}: it has not fetched its tasks`;
    if (!fetched) title.append(" …");
    const cells = role(element("div", "chips"), "presentation");
    for (const each of packed) {
      const chip = chipOf(each);
      const id = `chip-${member}-${chip.task}-${chip.role}`;
      const cell = role(element("span"), "gridcell");
      cell.append(chipElement(chips.get(id), id, chip));
      cells.append(cell);
    }
    if (!packed.length) cells.append(role(element("span", "more", "no task"), "gridcell"));
    line.append(title, cells);
    return line;
  });
  const all = element("div", "threads");
  all.append(...threads);
  block.replaceChildren(who, all);
  if (focused && focused !== document.activeElement && block.contains(focused)) focused.focus({ preventScroll: true });
}

/** The line of an instance that is away. The line replaces the rack and the tags, because there is room for one line. */
function away(untilMs) {
  const said = element("span", "more away", "away: tasks go ");
  said.title = "Its tasks go to others then";
  const until = element("time", "countdown", countdown(untilMs));
  role(until, "timer").dataset.untilMs = untilMs;
  said.append(until);
  return said;
}

function chipElement(old, id, chip) {
  const text = JSON.stringify([chip.standing, chip.lag, chip.whole, chip.left]);
  if (old && old.shown === text) return old;
  const made = old ?? element("a");
  const share = done(chip);
  made.shown = text;
  made.id = id;
  made.className = `task ${chip.role} ${chip.standing}`;
  made.href = `${home}/tasks/${encodeURIComponent(chip.task)}`;
  made.dataset.tip = `${chip.task}, ${chip.role}: ${chipText(chip)}`;
  if (!old) made.tabIndex = -1;
  const parts = [element("b", "", chip.letter), ` ${chip.task} `];
  if (chip.standing === "caught-up" && chip.role !== "active") parts.push(element("i", "", "✓"));
  if (chip.standing === "unknown") parts.push(element("i", "", "?"));
  if (chip.standing === "away") parts.push(element("i", "", "…"));
  if (chip.standing === "behind") {
    const bar = document.createElementNS(SVG, "svg");
    const rect = document.createElementNS(SVG, "rect");
    bar.setAttribute("class", "restored");
    bar.setAttribute("viewBox", "0 0 100 4");
    bar.setAttribute("preserveAspectRatio", "none");
    bar.setAttribute("aria-hidden", "true");
    rect.setAttribute("width", share ?? 0);
    rect.setAttribute("height", 4);
    bar.append(rect);
    parts.push(element("i", "", share === null ? "–" : `${share}%`), bar);
  }
  parts.push(element("span", "unseen", `, ${chip.role}: ${chipText(chip)}`));
  made.replaceChildren(...parts);
  return made;
}

// data

function heading(row, by) {
  if (by === "rack") return row.rack ?? "no rack";
  if (!by.startsWith("tag:")) return null;
  const key = by.slice(4);
  return row.tags.find((tag) => tag.startsWith(`${key}=`)) ?? `no ${key}`;
}

function take(document_, by) {
  items = [];
  let last = null;
  for (const row of document_.rows) {
    const group = heading(row, by);
    if (group !== null && group !== last) items.push({ heading: group, text: group });
    last = group;
    const longest = row.threads.reduce((most, thread) => thread[3].reduce((longer, each) => Math.max(longer, (typeof each === "string" ? each : each[0]).length - 1), most), 0);
    items.push({ row, text: JSON.stringify(row), longest });
  }
  grid.setAttribute("aria-rowcount", document_.rows.reduce((sum, row) => sum + 1 + row.threads.length, 0));
}

async function look() {
  const from = source();
  if (!from) {
    drop();
    return;
  }
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  again = false;
  try {
    if (from.dataset.grid !== address) etag = "";
    const headers = etag ? { "If-None-Match": etag } : {};
    const answer = await fetch(from.dataset.grid, { headers, cache: "no-store" });
    if (answer.status === 200) {
      const sent = await answer.json();
      [address, home] = [from.dataset.grid, from.dataset.home];
      etag = answer.headers.get("ETag") ?? "";
      prepare();
      take(sent, from.dataset.by);
      layOut();
      for (const [index, old] of built) {
        if (index < items.length) continue;
        old.remove();
        built.delete(index);
      }
      paint();
    }
  } catch {
    // live.js shows that the connection is broken, and the next change fetches again
  } finally {
    fetching = false;
  }
  if (again) look();
}

function prepare() {
  if (grid) return;
  grid = role(element("div", "grid rows-in-view"), "grid");
  grid.id = "grid";
  grid.setAttribute("aria-labelledby", "grid-title");
  room.append(grid);
  grid.addEventListener("grid:reveal", (event) => {
    const index = event.detail === "last" ? items.length - 1 : 0;
    if (!items[index]) return;
    window.scrollBy(0, grid.getBoundingClientRect().top + items[index].top - window.innerHeight / 3);
    paint();
  });
}

function drop() {
  grid?.remove();
  built.clear();
  [grid, items, address, etag] = [null, [], "", ""];
}

function soon() {
  if (!asked && grid) asked = requestAnimationFrame(paint);
}

window.addEventListener("scroll", soon, { passive: true });
new ResizeObserver(() => {
  if (!grid || !items.length) return;
  layOut();
  soon();
}).observe(room);
document.body.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target?.id === "live" || event.detail.elt?.id === "live") look();
});
startKeys();
look();
