"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const figures = read("onlooker-figures");
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const painted = (layout) => {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const size = root.classList.contains("print") ? 11 : 14;
    const axis = { gridcolor: colour("rule"), linecolor: colour("soft"), tickcolor: colour("soft"), fixedrange: true };
    const copy = structuredClone(layout);
    for (const name of ["xaxis", "yaxis"]) Object.assign(copy[name], axis);
    copy.xaxis.title.font = { size };
    if (copy.yaxis.title) copy.yaxis.title.font = { size };
    for (const shape of copy.shapes ?? []) shape.line.color = colour("soft");
    return Object.assign(copy, {
      colorway: [1, 2, 3, 4, 5, 6].map((place) => colour(`series-${place}`)),
      font: { family: style.getPropertyValue("--sans"), size, color: colour("ink") },
      paper_bgcolor: "transparent",
      plot_bgcolor: "transparent",
      hoverlabel: { bgcolor: colour("paper"), bordercolor: colour("soft"), font: { color: colour("ink") } },
    });
  };
  // Lines that belong together say so, and share a colour; maps name the two ends of their scale.
  const paired = (trace) => {
    const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
    if (trace.meta?.from) return { ...trace, colorscale: [[0, colour(trace.meta.from)], [1, colour(trace.meta.to)]] };
    if (!trace.meta?.series && !trace.meta?.colour) return trace;
    const color = colour(trace.meta.colour ?? `series-${trace.meta.series}`);
    const copy = { ...trace, line: { ...trace.line, color }, marker: { ...trace.marker, color } };
    if (trace.meta.letters) copy.textfont = { ...trace.textfont, color: colour(trace.meta.letters) };
    if (trace.error_y) copy.error_y = { ...trace.error_y, color };
    return copy;
  };
  const draw = () => {
    // Paper takes what stands there when it asks, so a plot for paper must have its width at once.
    const paper = root.classList.contains("print");
    for (const [id, { data, layout }] of Object.entries(figures)) {
      const width = paper ? document.getElementById(id).clientWidth : undefined;
      Plotly.react(id, data.map(paired), { ...painted(layout), width }, { responsive: true, displayModeBar: false });
    }
  };
  const forPaper = (on) => () => {
    root.classList.toggle("print", on);
    draw();
  };

  draw();
  dark.addEventListener("change", draw);
  addEventListener("beforeprint", forPaper(true));
  addEventListener("afterprint", forPaper(false));
})();
