// <button data-opens="ID"> opens the <dialog id="ID">; <button data-closes> inside closes it, and so does Escape.

export function startDialogs() {
  document.addEventListener("click", (event) => {
    const opener = event.target.closest?.("[data-opens]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.opens);
      if (dialog && !dialog.open) dialog.showModal();
      return;
    }
    event.target.closest?.("[data-closes]")?.closest("dialog")?.close();
  });
}
