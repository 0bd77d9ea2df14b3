// Sets the theme: light, dark, or the system's. Runs before the page is painted, so that the page does not flash.
(() => {
  "use strict";
  const names = { "": "system", light: "light", dark: "dark" };
  let chosen = "";
  try {
    chosen = localStorage.getItem("theme") ?? "";
  } catch {
    // the browser allows no storage: the choice lasts until the page is closed
  }
  const show = () => {
    if (chosen in names && chosen) document.documentElement.dataset.theme = chosen;
    else delete document.documentElement.dataset.theme;
  };
  show();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    const say = () => (button.textContent = `Theme: ${names[chosen] ?? "system"}`);
    button.hidden = false;
    say();
    button.addEventListener("click", () => {
      const order = Object.keys(names);
      chosen = order[(order.indexOf(chosen) + 1) % order.length];
      try {
        localStorage.setItem("theme", chosen);
      } catch {
        // the browser allows no storage
      }
      show();
      say();
    });
  });
})();
