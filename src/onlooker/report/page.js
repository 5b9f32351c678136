"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const figures = read("onlooker-figures");
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const painted = (layout) => {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const axis = { gridcolor: colour("rule"), linecolor: colour("soft"), tickcolor: colour("soft"), fixedrange: true };
    const copy = structuredClone(layout);
    for (const name of ["xaxis", "yaxis"]) Object.assign(copy[name], axis);
    for (const shape of copy.shapes ?? []) shape.line.color = colour("soft");
    return Object.assign(copy, {
      colorway: [1, 2, 3, 4, 5, 6].map((place) => colour(`series-${place}`)),
      font: { family: style.getPropertyValue("--sans"), size: 14, color: colour("ink") },
      paper_bgcolor: "transparent",
      plot_bgcolor: "transparent",
      hoverlabel: { bgcolor: colour("paper"), bordercolor: colour("soft"), font: { color: colour("ink") } },
    });
  };
  const draw = () => {
    for (const [id, { data, layout }] of Object.entries(figures)) {
      Plotly.react(id, data, painted(layout), { responsive: true, displayModeBar: false });
    }
  };
  const forPrint = (on) => () => {
    root.classList.toggle("print", on);
    draw();
    for (const id of Object.keys(figures)) Plotly.Plots.resize(id);
  };

  draw();
  dark.addEventListener("change", draw);
  addEventListener("beforeprint", forPrint(true));
  addEventListener("afterprint", forPrint(false));
})();
