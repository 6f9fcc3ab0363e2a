// Joins the labelled controls of a .slider block to the signals of its Vega chart. The arithmetic is in the chart's
// own expressions (scripts/make_sliders.py); nothing is computed here.
(() => {
  "use strict";

  // A device lists only some precisions: offer just those, and keep the chosen one where it exists.
  function offerPrecisions(root, devices) {
    const list = root.querySelector("[data-signal=precision]");
    const offered = Object.keys(devices[root.querySelector("[data-signal=device]").value].peak_flops);
    const chosen = [list.value, ...root.dataset.preferred.split(" "), offered[0]].find((p) => offered.includes(p));
    list.replaceChildren(...offered.map((p) => new Option(p, p, p === chosen, p === chosen)));
  }

  async function start(root) {
    const spec = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    const chart = root.querySelector(".slider-chart");
    const { view } = await window.vegaEmbed(chart, spec, { mode: "vega-lite", renderer: "svg", actions: false, defaultStyle: false });
    const controls = [...root.querySelectorAll("[data-signal]")];

    function show() {
      for (const control of root.querySelectorAll("[data-shows]")) {
        const text = view.signal(control.dataset.shows + "_text");
        control.setAttribute("aria-valuetext", text);
        root.querySelector(`[data-text=${control.dataset.shows}]`).textContent = text;
      }
      for (const output of root.querySelectorAll("[data-result]")) {
        output.dataset.value = String(view.signal(output.dataset.result)); // every digit
        output.textContent = view.signal(output.dataset.result + "_text");
      }
    }

    function update(event) {
      if (event?.target.dataset.signal === "device") offerPrecisions(root, view.signal("devices"));
      for (const control of controls) view.signal(control.dataset.signal, control.type === "range" ? control.valueAsNumber : control.value);
      view.run();
    }

    for (const output of root.querySelectorAll("[data-result]")) view.addSignalListener(output.dataset.result + "_text", show);
    for (const control of root.querySelectorAll("[data-shows]")) view.addSignalListener(control.dataset.shows + "_text", show);
    root.addEventListener("input", update);
    offerPrecisions(root, view.signal("devices")); // a browser may restore what was chosen before a reload
    root.querySelector(".slider-controls").hidden = false;
    root.querySelector("details").open = false;
    update();
    show();
    root.dataset.state = "live";
  }

  for (const root of document.querySelectorAll(".slider:not([data-state])")) {
    root.dataset.state = "starting";
    start(root).catch((error) => {
      root.dataset.state = "failed"; // the table stays open
      console.error("slider:", error);
    });
  }
})();
