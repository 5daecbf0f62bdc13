"use strict";
// Draws the figures of a report with the colours of the page's style and for the width of the page, and again when either changes.
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const narrow = matchMedia("(max-width: 640px)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const config = { displayModeBar: false, responsive: true, typesetMath: false }; // show a $ in a name as it is
  const chosen = {}; // the index of the chosen entry of a figure's list

  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

  // Merge `over` into `base`: objects key by key. Other values of `over` replace those of `base`.
  function laidOver(base, over) {
    if (!isObject(base) || !isObject(over)) return over === undefined ? base : over;
    const both = { ...base };
    for (const key of Object.keys(over)) both[key] = laidOver(base[key], over[key]);
    return both;
  }

  // Replace var(--x) by the value in the page's style, in colours only, since a name may contain the same text.
  function coloured(value, style, here = false) {
    if (typeof value === "string") {
      return here ? value.replace(/var\((--[a-z0-9-]+)\)/g, (_, name) => style.getPropertyValue(name).trim()) : value;
    }
    if (Array.isArray(value)) return value.map((item) => coloured(item, style, here));
    if (!isObject(value)) return value;
    const isColour = (key) => /color(scale)?$|^shadow$/.test(key);
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, coloured(item, style, isColour(key))]),
    );
  }

  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  function rate(bytes) {
    let unit = 0;
    while (unit < units.length - 1 && bytes >= (unit ? 1023.5 : 1024)) (bytes /= 1024), unit++;
    const digits = bytes >= 99.95 || (!unit && Number.isInteger(bytes)) ? 0 : bytes >= 9.995 ? 1 : 2;
    return `${Number(bytes.toFixed(digits))} ${units[unit]}/s`;
  }

  function draw(name, width) {
    const figure = report.figures[name];
    let { data, layout } = figure;
    const choices = report.choices[name];
    if (choices) {
      const choice = choices[chosen[name] || 0];
      data = data.map((trace, i) => laidOver(trace, choice.data[i]));
      layout = laidOver(layout, choice.layout);
    }
    if (figure.rates) {
      data = data.map((trace) => (trace.mode === "lines" ? { ...trace, text: trace.y.map(rate) } : trace));
    }
    if (narrow.matches) layout = laidOver(layout, figure.narrow);
    if (width) layout = { ...layout, autosize: false, width };
    const style = getComputedStyle(document.documentElement);
    Plotly.react(`plot-${name}`, coloured(data, style), coloured(layout, style), config);
  }

  const drawAll = (width) => Object.keys(report.figures).forEach((name) => draw(name, width));

  // Sort by a column: numbers descending, texts ascending. A second click reverses the order.
  function sortable(table) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const numbers = head.classList.contains("n");
        const was = head.getAttribute("aria-sort");
        const descending = was ? was === "ascending" : numbers;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        const key = (row) => (numbers ? Number(row.cells[column].dataset.key) : row.cells[column].textContent);
        const order = (a, b) => (numbers ? key(a) - key(b) : key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0);
        body.append(...[...body.rows].sort((a, b) => (descending ? order(b, a) : order(a, b))));
      });
    });
  }

  for (const select of document.querySelectorAll("select[data-figure]")) {
    select.addEventListener("change", () => {
      chosen[select.dataset.figure] = select.selectedIndex;
      draw(select.dataset.figure);
    });
  }
  document.querySelectorAll("table.sortable").forEach(sortable);
  for (const change of [narrow, dark]) change.addEventListener("change", () => drawAll());
  // Paper is always light, and 680 pixels wide.
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.paper = "";
    drawAll(680);
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.paper;
    drawAll();
  });
  drawAll();
})();
