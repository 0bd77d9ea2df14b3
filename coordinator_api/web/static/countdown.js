// Updates times: <time data-until-ms> counts down, <time data-since-ms> counts up. The page has the server's time.

const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];

/** Formats a duration in its two largest units, like clock_duration in rebalance_analysis/presentation/quantities.py. */
export function duration(ms) {
  let left = Math.max(ms, 0);
  const parts = [];
  for (const [unit, name] of UNITS) {
    const number = Math.floor(left / unit);
    left -= number * unit;
    if (number || parts.length) parts.push([number, name]);
    if (parts.length === 2) break;
  }
  return parts.filter(([number]) => number).map(([number, name]) => `${number}\u00a0${name}`).join(" ") || "0\u00a0s";
}

let page = null;
let ahead = 0;

/** The present time by the server's clock, in milliseconds since the epoch. */
export function now() {
  const live = document.getElementById("live");
  const at = live?.dataset.nowMs;
  if (at && at !== page) {
    page = at;
    ahead = Number(at) - Date.now();
  }
  return Date.now() + ahead;
}

export function countdown(untilMs, at = now()) {
  return untilMs > at ? `in ${duration(untilMs - at)}` : "due";
}

function tick() {
  const at = now();
  for (const each of document.querySelectorAll("time[data-until-ms]")) {
    say(each, countdown(Number(each.dataset.untilMs), at));
  }
  for (const each of document.querySelectorAll("time[data-since-ms]")) {
    say(each, `${duration(at - Number(each.dataset.sinceMs))} ago`);
  }
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function startCountdowns() {
  tick();
  setInterval(() => {
    if (!document.hidden) tick();
  }, 1000);
}
