// Keeps #live up to date: when the event stream reports that its digest has changed, the element is fetched again.
// A visible page has one stream. A hidden page has no stream. No data is stored.

const LONGEST_WAIT_MS = 15000;
const HIDDEN_FOR_MS = 20000;

let source = null;
let failures = 0;
let again = 0;
let hidden = 0;
let fetching = false;
let stale = false;
let gone = false;

const live = () => document.getElementById("live");

/** Shows or hides the banner. `which`: the data attribute with its text; empty to hide it. */
function banner(which) {
  const shown = document.getElementById("connection");
  const text = which ? shown.dataset[which] : "";
  if (shown.textContent !== text) shown.textContent = text;
}

/** Fetches the live part again. Calls during a fetch cause one more fetch after it. */
export async function refresh() {
  if (fetching) {
    stale = true;
    return;
  }
  fetching = true;
  stale = false;
  try {
    await window.htmx.ajax("GET", location.pathname + location.search, { target: "#live", swap: "morph:outerHTML" });
  } catch {
    banner("broken");
  } finally {
    fetching = false;
  }
  if (stale) refresh();
}

function open() {
  clearTimeout(again);
  const address = live()?.dataset.live;
  if (!address || source || gone) return;
  source = new EventSource(address);
  source.addEventListener("open", () => {
    failures = 0;
    banner();
  });
  source.addEventListener("changed", (event) => {
    if (live()?.dataset.digest !== event.data) refresh();
  });
  source.addEventListener("error", () => {
    banner("broken");
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    close();
    const wait = Math.min(1000 * 2 ** failures++, LONGEST_WAIT_MS);
    again = setTimeout(() => {
      refresh(); // leads to the login if the session has ended, and shows an error if the group is gone
      open();
    }, wait * (0.5 + Math.random() / 2));
  });
}

function close() {
  clearTimeout(again);
  source?.close();
  source = null;
}

/** True if the user edits the field or has changed it. The server's value must then not replace the user's. */
function isTouched(field) {
  if (field === document.activeElement || field.dataset.typed !== undefined) return true;
  if (field.type === "checkbox") return field.checked !== field.defaultChecked;
  if (field.tagName === "SELECT") return field.selectedIndex > 0;
  return field.type !== "hidden" && field.value !== field.defaultValue;
}

/**
 * Keeps fields that the user has changed, details that the user has opened, and the attributes of `data-keep`, which
 * belong to a script of the page, when the live part is fetched again.
 */
function keepTouched() {
  const { callbacks } = window.Idiomorph.defaults;
  callbacks.beforeNodeMorphed = (field) =>
    !(field instanceof Element && field.matches("input, select, textarea") && isTouched(field));
  callbacks.beforeAttributeUpdated = (name, element) =>
    !(name === "open" && element.matches("details")) && !element.dataset.keep?.split(" ").includes(name);
}

export function startLive() {
  if (!live()?.dataset.live) return;
  keepTouched();
  open();
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(close, HIDDEN_FOR_MS);
    else open();
  });
  // a page in the back/forward cache must not keep its stream
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) open();
  });
  document.body.addEventListener("htmx:sendError", () => banner("broken"));
  document.body.addEventListener("htmx:responseError", (event) => {
    if ([403, 404, 422].includes(event.detail.xhr.status)) {
      gone = true;
      close();
      banner("gone");
    } else if (event.detail.xhr.status !== 401) {
      banner("busy");
      again = setTimeout(refresh, LONGEST_WAIT_MS / 5);
    }
  });
  document.body.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful && source?.readyState === EventSource.OPEN) banner();
  });
}
