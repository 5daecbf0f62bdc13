"use strict";
// Draws the charts of a report as SVG, for the width of the page. Colours are custom properties of the page's style, so
// that a chart follows the colour scheme and paper by itself.
//
// A chart has `height`, `x` and `y` with a `kind` ("time", "duration", "bits", "rate"), `lines` with their looks,
// `curves` (lists of numbers that choices share) and `choices`, of which the reader sees one. A choice has
// - `segments`: the spans [begin, end] of the x axis, with breaks between them; steps of `width` fill the segments;
// - `lines`: for each line its numbers `y` (a list, or an index into `curves`), for steps also `most`, the largest part
//   of each step; or `x0` and `dx`, or `x`, the places of the numbers, with `notes`, a text for each of them;
// - `marks`: points with a text; `level`: a dashed line with a text.
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const BREAK = 26; // the pixels of a break of the x axis
  const LETTER = 7; // the pixels of a letter beside the y axis
  const DECADES = 6; // the most decades of a logarithmic axis
  const SECONDS = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600,
    2592000, 7776000, 31536000, 157680000,
  ];
  const LAGS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36000, 86400, 864000];

  const scaled = (value, base, units) => {
    let unit = 0;
    while (unit < units.length - 1 && value >= base * (1 - 0.5 / 1000)) (value /= base), unit++;
    const digits = value >= 99.95 || (!unit && Number.isInteger(value)) ? 0 : value >= 9.995 ? 1 : 2;
    return `${Number(value.toFixed(digits))} ${units[unit]}`;
  };
  const bytes = (value) => scaled(value, 1024, ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"]);
  const bits = (value) => scaled(value, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
  function duration(seconds) {
    if (!seconds) return "0 s";
    if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))} ms`;
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (seconds >= size) return `${Number((seconds / size).toPrecision(3))} ${unit}`;
    }
    return `${Number(seconds.toPrecision(3))} s`;
  }
  const clock = (seconds) => new Date(seconds * 1000).toISOString();
  const moment = (seconds) => `${clock(seconds).slice(0, 10)} ${clock(seconds).slice(11, 19)} UTC`;

  const units = {
    bytes: { show: bytes, factor: 1, base: 2 },
    bits: { show: bits, factor: 8, base: 10 },
    seconds: { show: duration, factor: 1, base: 10 },
  };

  function round(top, most) {
    const scale = 10 ** Math.floor(Math.log10(top / most));
    return scale * [1, 2, 5, 10].find((part) => top / (scale * part) <= most);
  }

  function linearTicks(top, unit, most) {
    let step = 1;
    if (unit.base === 2) while (top / step > most) step *= 2;
    else step = round(top, most);
    return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, n) => n * step);
  }

  function logTicks(low, top, unit, most) {
    if (unit === units.seconds) return LAGS.filter((lag) => lag >= low * 0.99 && lag <= top);
    const first = Math.ceil(Math.log(low) / Math.log(unit.base) - 1e-9);
    const last = Math.floor(Math.log(top) / Math.log(unit.base) + 1e-9);
    const stride = Math.max(1, Math.ceil((last - first + 1) / most));
    const found = [];
    for (let power = first; power <= last; power += stride) found.push(unit.base ** power);
    return found;
  }

  const CHARACTER = 7; // pixels, about

  class Chart {
    constructor(name, data) {
      this.name = name;
      this.data = data;
      this.at = 0; // the index of the chosen entry of the list
      this.unit = data.y.unit;
      this.log = Boolean(data.y.log);
      this.box = document.getElementById(`plot-${name}`);
      this.tip = null;
      this.cursor = null;
      this.box.addEventListener("pointermove", (event) => this.point(event.clientX - this.box.getBoundingClientRect().left));
      this.box.addEventListener("pointerdown", (event) => this.point(event.clientX - this.box.getBoundingClientRect().left));
      this.box.addEventListener("pointerleave", () => this.unpoint());
      this.box.addEventListener("blur", () => this.unpoint());
      this.box.addEventListener("keydown", (event) => this.key(event));
    }

    values(which) {
      return typeof which === "number" ? this.data.curves[which] : which || [];
    }

    // Return the points of a line as [x from, x to, mean, greatest, index] in the units of the axes, at most one for
    // each pixel. The mean and the greatest of joined points are kept, so that no peak is lost.
    points(line, look, pixels) {
      const y = this.values(line.y);
      const most = line.most === undefined ? y : this.values(line.most);
      const width = this.choice.width;
      const found = [];
      if (line.x) return line.x.map((x, i) => [x, x, y[i], y[i], i]);
      let segments = [[line.x0 || 0, y.length, line.dx]];
      if (line.dx === undefined) segments = this.choice.segments.map(([from, to]) => [from, Math.round((to - from) / width), width]);
      let first = 0;
      const total = segments.reduce((sum, [, n]) => sum + n, 0);
      const joined = Math.max(1, Math.ceil(total / Math.max(pixels, 1)));
      for (const [from, n, dx] of segments) {
        const part = [];
        for (let i = 0; i < n; i += joined) {
          const end = Math.min(i + joined, n);
          let sum = 0;
          let top = 0;
          for (let k = i; k < end; k++) (sum += y[first + k]), (top = Math.max(top, most[first + k]));
          part.push([from + i * dx, from + (look.step ? end : i) * dx, look.step ? sum / (end - i) : top, top, first + i]);
        }
        found.push(part);
        first += n;
      }
      return look.step ? found : found.flat();
    }

    draw() {
      const { data } = this;
      const choice = (this.choice = data.choices[this.at]);
      for (const legend of document.querySelectorAll(`[data-legend="${this.name}"]`)) {
        [...legend.children].forEach((one, i) => (one.hidden = i >= choice.lines.length));
        for (const one of legend.querySelectorAll(".same")) one.hidden = choice.lines.length > 1;
      }
      const width = this.box.clientWidth;
      const height = data.height;
      const unit = (this.units = units[this.unit]);
      const narrow = width < 560;
      const plain = choice.lines.flatMap((line) => [...this.values(line.y), ...this.values(line.most)]);
      const others = [...(choice.marks || []).map((mark) => mark.y), ...(choice.level ? [choice.level.value] : [])];
      const all = [...others.map((value) => value * unit.factor)];
      let top = Math.max(...all, 0);
      let low = Infinity;
      for (const value of plain) {
        if (value * unit.factor > top) top = value * unit.factor;
        if (value > 0 && value * unit.factor < low) low = value * unit.factor;
      }
      for (const value of all) if (value > 0 && value < low) low = value;
      top = top || 1;
      low = Math.max(Math.min(low, top / 10), top / 10 ** DECADES);
      if (this.log) low = unit.base ** Math.floor(Math.log(low) / Math.log(unit.base) + 1e-9);
      const most = Math.max(3, Math.min(6, Math.floor(height / 50)));
      const ticks = this.log ? logTicks(low, top * 1.2, unit, most) : linearTicks(top * 1.05, unit, most);
      const labels = ticks.map((tick) => (tick ? unit.show(tick) : "0"));
      const left = Math.max(...labels.map((text) => text.length)) * LETTER + 10;
      const frame = (this.frame = { left, right: width - 14, top: 22, bottom: height - 40 });
      const high = this.log ? Math.log(top * 1.3) : top * 1.1;
      const floor = this.log ? Math.log(low) : 0;
      this.y = (value) => {
        const shown = value * unit.factor;
        const part = this.log ? (Math.log(Math.max(shown, low)) - floor) / (high - floor) : shown / high;
        return frame.bottom - Math.min(part, 1) * (frame.bottom - frame.top);
      };
      this.placeX(frame);
      const svg = this.svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
      ticks.forEach((tick, i) => {
        const y = this.y(tick / unit.factor);
        svg.append(this.svg("line", { class: "grid", x1: frame.left, x2: frame.right, y1: y, y2: y }));
        svg.append(this.text(labels[i], frame.left - 6, y + 4, "end", "ytick"));
      });
      this.drawTimes(svg, narrow);
      choice.lines.forEach((line, i) => this.drawLine(svg, line, data.lines[i]));
      if (choice.level) this.drawLevel(svg, choice.level);
      for (const mark of choice.marks || []) this.drawMark(svg, mark);
      this.cursor = this.svg("line", { class: "cursor", y1: frame.top, y2: frame.bottom, visibility: "hidden" });
      svg.append(this.cursor);
      this.box.replaceChildren(svg);
      this.tip = null;
      this.drawn = width;
    }

    placeX(frame) {
      const { x } = this.data;
      const room = frame.right - frame.left;
      if (x.log) {
        const all = this.choice.lines.flatMap((line) => line.x);
        const [from, to] = [Math.log(Math.min(...all)), Math.log(Math.max(...all))];
        this.x = (value) => frame.left + 12 + ((Math.log(value) - from) / (to - from || 1)) * (room - 24);
        this.unx = (pixel) => Math.exp(from + ((pixel - frame.left - 12) / (room - 24)) * (to - from || 1));
        return;
      }
      const { segments } = this.choice;
      const total = segments.reduce((sum, [from, to]) => sum + to - from, 0) || 1;
      const scale = (room - BREAK * (segments.length - 1)) / total;
      const starts = [];
      let at = frame.left;
      for (const [from, to] of segments) starts.push(at), (at += (to - from) * scale + BREAK);
      this.x = (value) => {
        let k = segments.length - 1;
        while (k > 0 && value < segments[k][0]) k--;
        return starts[k] + Math.min(Math.max(value - segments[k][0], 0), segments[k][1] - segments[k][0]) * scale;
      };
      this.unx = (pixel) => {
        let k = segments.length - 1;
        while (k > 0 && pixel < starts[k] - BREAK / 2) k--;
        const [from, to] = segments[k];
        return Math.min(Math.max(from + (pixel - starts[k]) / scale, from), to - 1e-6);
      };
      this.starts = starts;
      this.scale = scale;
    }

    drawTimes(svg, narrow) {
      const { x } = this.data;
      const { frame } = this;
      const y = frame.bottom + 16;
      if (x.kind === "bits") {
        let last = -Infinity;
        for (const tick of x.ticks) {
          const at = this.x(tick);
          if (at - last < (narrow ? 64 : 78)) continue;
          svg.append(this.text(bits(tick), at, y, "middle", "xtick"));
          last = at;
        }
        return;
      }
      const least = (narrow ? 62 : 84) / this.scale;
      const span = this.choice.segments.reduce((sum, [from, to]) => sum + to - from, 0);
      const step = least < 1 && x.kind === "duration" ? round(span || 1, Math.max(1, span / least)) : SECONDS.find((each) => each >= least) || SECONDS.at(-1);
      const ends = [-Infinity, -Infinity]; // of the last label in the row of times, and in that of dates
      let day = "";
      this.choice.segments.forEach(([from, to], k) => {
        if (k) {
          const middle = this.starts[k] - BREAK / 2;
          const line = { class: "break", x1: middle - 4, x2: middle + 4, y1: frame.bottom + 6, y2: frame.bottom - 6 };
          svg.append(this.svg("line", { ...line, x1: middle - 7, x2: middle + 1 }), this.svg("line", { ...line, x1: middle - 1, x2: middle + 7 }));
          const hint = this.svg("rect", { class: "gap", x: this.starts[k] - BREAK, width: BREAK, y: frame.top, height: frame.bottom - frame.top });
          const title = this.svg("title", {});
          title.textContent = `${duration(from - this.choice.segments[k - 1][1])} without traffic`;
          hint.append(title);
          svg.append(hint);
        }
        const ticks = [];
        for (let tick = Math.ceil(from / step - 1e-9) * step; tick <= to + 1e-9; tick += step) ticks.push(tick);
        if (!ticks.length) ticks.push(from);
        for (const tick of ticks) {
          const at = this.x(tick);
          if (at > frame.right + 1) continue;
          const texts = this.timeTexts(tick, step);
          if (texts[1] === day) texts.pop();
          const half = (CHARACTER * Math.max(...texts.map((one) => one.length))) / 2;
          const anchor = at > frame.right - half ? "end" : at < frame.left + half && k === 0 ? "start" : "middle";
          const begin = (text) => at - CHARACTER * text.length * { start: 0, middle: 0.5, end: 1 }[anchor];
          if (texts.some((text, row) => begin(text) < ends[row] + CHARACTER)) continue;
          texts.forEach((text, row) => {
            svg.append(this.text(text, at, y + 15 * row, anchor, "xtick"));
            ends[row] = begin(text) + CHARACTER * text.length;
          });
          if (texts.length > 1) day = texts[1];
        }
      });
    }

    // Return the text at a tick of a time axis and, below it, the date or the year.
    timeTexts(tick, step) {
      if (this.data.x.kind === "duration") {
        const [size, unit] = [[3600, "h"], [60, "min"], [1, "s"], [0.001, "ms"]].find(([least]) => step >= least) || [0.001, "ms"];
        return [`${Number((tick / size).toPrecision(4))} ${unit}`];
      }
      const date = clock(tick).slice(0, 10);
      const time = step < 60 || tick % 60 ? clock(tick).slice(11, 19) : clock(tick).slice(11, 16);
      return step >= 86400 ? [date.slice(5), date.slice(0, 4)] : [time, date];
    }

    drawLine(svg, line, look) {
      const { frame } = this;
      const colour = `stroke: var(--${look.colour})`;
      const dash = { dot: "2 4", dash: "8 5", dashdot: "8 4 2 4" }[look.dash] || "none";
      const points = this.points(line, look, (frame.right - frame.left) / (look.step ? 2 : 1));
      if (!look.step) {
        if (!points.length) return;
        const path = points.map(([x, , , value], i) => `${i ? "L" : "M"}${this.x(x).toFixed(1)},${this.y(value).toFixed(1)}`).join("");
        svg.append(this.svg("path", { class: "line", d: path, style: colour, "stroke-dasharray": dash }));
        if (look.points) for (const [x, , , value] of points) svg.append(this.svg("circle", { class: "dot", r: 4, cx: this.x(x), cy: this.y(value), style: `fill: var(--${look.colour})` }));
        return;
      }
      for (const part of points) {
        if (!part.length) continue;
        const edge = (index) => part.map(([from, to, ...values]) => {
          const y = this.y(values[index]).toFixed(1);
          return `${this.x(from).toFixed(1)},${y}L${this.x(to).toFixed(1)},${y}`;
        });
        const [mean, greatest] = [edge(0), edge(1)];
        const [begin, end] = [this.x(part[0][0]), this.x(part.at(-1)[1])];
        if (look.area) {
          const area = `M${begin},${frame.bottom}L${mean.join("L")}L${end},${frame.bottom}Z`;
          svg.append(this.svg("path", { class: "area", d: area, style: `fill: var(--${look.area})` }));
        }
        if (part.some((point) => point[3] > point[2])) {
          svg.append(this.svg("path", { class: "envelope", d: `M${greatest.join("L")}`, style: colour }));
        }
        if (look.width !== 0) svg.append(this.svg("path", { class: "line", d: `M${mean.join("L")}`, style: colour, "stroke-dasharray": dash }));
      }
    }

    drawLevel(svg, level) {
      const { frame } = this;
      const y = this.y(level.value);
      svg.append(this.svg("line", { class: "level", x1: frame.left, x2: frame.right, y1: y, y2: y }));
      svg.append(this.text(level.text, frame.right, y - 5, "end", "level"));
    }

    drawMark(svg, mark) {
      const { frame } = this;
      const [x, y] = [this.x(mark.x), this.y(mark.y)];
      const part = (x - frame.left) / (frame.right - frame.left);
      const anchor = part < 0.25 ? "start" : part > 0.75 ? "end" : "middle";
      svg.append(this.svg("circle", { class: "mark", r: 4.5, cx: x, cy: y, style: `fill: var(--${mark.colour})` }));
      svg.append(this.text(`peak ${this.units.show(mark.y * this.units.factor)}`, x, y - 8, anchor, "mark"));
    }

    svg(kind, attributes) {
      const made = document.createElementNS(SVG, kind);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
      return made;
    }

    text(content, x, y, anchor, kind) {
      const made = this.svg("text", { x, y, "text-anchor": anchor, class: kind });
      made.textContent = content;
      return made;
    }

    // Show the values at a place of the x axis beside the pointer.
    point(pixel) {
      const { frame, data, choice } = this;
      if (!frame) return;
      const value = this.unx(Math.min(Math.max(pixel, frame.left), frame.right));
      const rows = [];
      let title = data.x.kind === "time" ? moment(value) : data.x.kind === "bits" ? "" : duration(value);
      let place = this.x(value);
      choice.lines.forEach((line, i) => {
        const look = data.lines[i];
        const y = this.values(line.y);
        let index;
        if (line.x) {
          index = line.x.reduce((best, x, k) => (Math.abs(Math.log(x / value)) < Math.abs(Math.log(line.x[best] / value)) ? k : best), 0);
          if (!line.x.length) return;
          place = this.x(line.x[index]);
          title = bits(line.x[index]);
        } else if (line.dx !== undefined) {
          index = Math.max(Math[look.step ? "floor" : "round"]((value - line.x0) / line.dx), 0); // a line may end earlier
        } else {
          index = 0;
          for (const [from, to] of choice.segments) {
            if (value >= from && value < to) {
              const step = Math.floor((value - from) / choice.width);
              index += step;
              title = moment(from + step * choice.width);
              break;
            }
            index += Math.round((to - from) / choice.width);
          }
        }
        if (y[index] === undefined) return;
        let shown = this.units.show(y[index] * this.units.factor);
        const most = line.most === undefined ? undefined : this.values(line.most)[index];
        if (most !== undefined && most > y[index]) shown += `, at most ${this.units.show(most * this.units.factor)}`;
        rows.push([look, line.notes ? line.notes[index] : shown]);
      });
      this.pixel = place;
      this.cursor.setAttribute("x1", place);
      this.cursor.setAttribute("x2", place);
      this.cursor.setAttribute("visibility", "visible");
      if (!this.tip) {
        this.tip = document.createElement("div");
        this.tip.className = "tip";
        this.tip.setAttribute("role", "status");
        this.box.append(this.tip);
      }
      const head = document.createElement("b");
      head.textContent = title;
      this.tip.replaceChildren(head);
      for (const [look, text] of rows) {
        const row = document.createElement("span");
        const swatch = document.createElement("i");
        swatch.style.background = `var(--${look.colour})`;
        row.append(swatch, `${look.name}: ${text}`);
        this.tip.append(row);
      }
      const room = this.box.clientWidth - this.tip.offsetWidth;
      this.tip.style.left = `${Math.min(Math.max(place + (place > this.box.clientWidth / 2 ? -this.tip.offsetWidth - 12 : 12), 0), Math.max(room, 0))}px`;
      this.tip.style.top = `${frame.top}px`;
    }

    unpoint() {
      if (this.cursor) this.cursor.setAttribute("visibility", "hidden");
      if (this.tip) this.tip.remove();
      this.tip = null;
    }

    key(event) {
      const { frame } = this;
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") this.unpoint();
      if (!step || !frame) return;
      event.preventDefault();
      const at = this.tip ? this.pixel + step * Math.max(2, (frame.right - frame.left) / 200) : step > 0 ? frame.left : frame.right;
      this.point(at);
    }
  }

  const charts = new Map(Object.entries(report.charts).map(([name, data]) => [name, new Chart(name, data)]));
  for (const input of document.querySelectorAll("[data-chart]")) {
    const chart = charts.get(input.dataset.chart);
    const change = () => {
      if (input.dataset.set === "unit") chart.unit = input.value;
      else if (input.dataset.set === "scale") chart.log = input.value === "log";
      else chart.at = input.selectedIndex;
      chart.draw();
    };
    input.addEventListener("change", change);
    if (input.checked && input.dataset.set) change();
  }
  for (const chart of charts.values()) {
    chart.draw();
    new ResizeObserver(() => chart.box.clientWidth !== chart.drawn && chart.draw()).observe(chart.box);
  }
})();
