"use strict";
(function () {
  var specs = JSON.parse(document.getElementById("figure-specs").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var paper = window.matchMedia("print");
  var PRINT_WIDTH_PX = 660;
  var config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: "hover",
    modeBarButtons: [["toImage", "resetScale2d"]],
    scrollZoom: false
  };

  function draw(place, scheme, printing) {
    var spec = specs[place.dataset.figure][scheme];
    // A copy: plotly writes into what it is given.
    var copy = JSON.parse(JSON.stringify(spec));
    var narrow = place.clientWidth < 520;
    if (narrow && !printing) {
      copy.layout.height = 460;
      copy.layout.margin.t = 110;
      copy.layout.margin.r = 8;
    }
    if (printing) {
      copy.layout.width = PRINT_WIDTH_PX;
      copy.layout.height = 340;
    }
    return Plotly.react(place, copy.data, copy.layout, config);
  }

  function drawAll(printing) {
    var scheme = dark.matches && !printing ? "dark" : "light";
    document.querySelectorAll("[data-figure]").forEach(function (place) {
      draw(place, scheme, printing);
    });
  }

  function copyText(text) {
    if (navigator.clipboard && window.isSecureContext) {
      return navigator.clipboard.writeText(text);
    }
    var area = document.createElement("textarea");
    area.value = text;
    area.className = "off-screen";
    document.body.appendChild(area);
    area.select();
    var copied = document.execCommand("copy");
    area.remove();
    return copied ? Promise.resolve() : Promise.reject(new Error("copy refused"));
  }

  function say(button, text) {
    var before = button.dataset.label;
    button.textContent = text;
    window.setTimeout(function () { button.textContent = before; }, 1800);
  }

  document.querySelectorAll("[data-copy]").forEach(function (button) {
    button.hidden = false;
    button.dataset.label = button.textContent;
    button.addEventListener("click", function () {
      var text = document.getElementById(button.dataset.copy).textContent;
      copyText(text).then(
        function () { say(button, "Copied"); },
        function () { say(button, "Select it by hand"); }
      );
    });
  });

  dark.addEventListener("change", function () { drawAll(paper.matches); });
  paper.addEventListener("change", function (event) { drawAll(event.matches); });
  window.addEventListener("beforeprint", function () { drawAll(true); });
  window.addEventListener("afterprint", function () { drawAll(false); });
  drawAll(paper.matches);
})();
