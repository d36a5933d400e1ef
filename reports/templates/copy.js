"use strict";
/* Copy buttons. They are hidden until this script runs: without it there is nothing to press. */
(() => {
  const SAID_MS = 1800;

  function copyBySelection(text) {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "off-screen";
    document.body.appendChild(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }

  // A page from a file may be refused the clipboard; selecting and copying still works there.
  async function copyText(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copyBySelection(text);
    }
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    const label = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const copied = await copyText(document.getElementById(button.dataset.copy).textContent);
      button.focus();
      button.textContent = copied ? "Copied" : "Select it by hand";
      window.setTimeout(() => (button.textContent = label), SAID_MS);
    });
  }
})();
