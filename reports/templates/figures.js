"use strict";
/* Draws the figures whose specifications lie in the page, in the scheme and size of the reader. */
(() => {
  const specs = JSON.parse(document.getElementById("figure-specs").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paper = window.matchMedia("print");
  const NARROW_PX = 520;
  const PRINT_WIDTH_PX = 660;
  const PRINT_HEIGHT_PX = 340;
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: "hover",
    modeBarButtons: [["toImage", "resetScale2d"]],
    scrollZoom: false,
  };

  function draw(place, scheme, printing) {
    // A copy: plotly writes into what it is given.
    const { data, layout } = structuredClone(specs[place.dataset.figure][scheme]);
    if (printing) {
      layout.width = PRINT_WIDTH_PX;
      layout.height = PRINT_HEIGHT_PX;
    } else if (place.clientWidth < NARROW_PX) {
      layout.height += 40;
      layout.margin.t = 110;
      layout.margin.r = 8;
    }
    return Plotly.react(place, data, layout, config);
  }

  const places = [...document.querySelectorAll("[data-figure]")];
  const waiting = new Set(places);
  const PATIENCE_MS = 200;
  const whenIdle = window.requestIdleCallback
    ? (next) => window.requestIdleCallback(next, { timeout: PATIENCE_MS })
    : (next) => window.setTimeout(next, 1);
  const schemeNow = (printing) => (dark.matches && !printing ? "dark" : "light");

  function drawAll(printing) {
    waiting.clear();
    for (const place of places) draw(place, schemeNow(printing), printing);
  }

  // One at a time: the text can be read, and the controls used, before the last one is there.
  function drawNext() {
    const [place] = waiting;
    if (!place) return;
    waiting.delete(place);
    draw(place, schemeNow(paper.matches), paper.matches);
    whenIdle(drawNext);
  }

  dark.addEventListener("change", () => drawAll(paper.matches));
  paper.addEventListener("change", (event) => drawAll(event.matches));
  window.addEventListener("beforeprint", () => drawAll(true));
  window.addEventListener("afterprint", () => drawAll(false));
  whenIdle(drawNext);
})();
