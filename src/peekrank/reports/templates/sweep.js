"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const data = JSON.parse(byId("data").textContent);
  const chart = byId("chart"), svg = chart.querySelector("svg"), controls = byId("controls");
  const boundsBox = byId("bounds");
  const shown = data.learners.map(() => true);
  const MISSING = "–", ROUNDING = 1e-9;
  const QUANTITIES = {
    regret: { words: "regret", logX: true, logY: true },
    average: { words: "regret per round", logX: true, logY: false },
    quality: { words: "value per round", logX: true, logY: false },
  };
  const MARKERS = { // within a square of side 2
    "o": "M-.9 0A.9.9 0 1 0 .9 0A.9.9 0 1 0-.9 0Z", "s": "M-.8-.8H.8V.8H-.8Z", "^": "M0-1L1 .8H-1Z",
    "v": "M0 1L1-.8H-1Z", "<": "M-1 0L.8-1V1Z", ">": "M1 0L-.8-1V1Z", "D": "M0-1.1L1.1 0L0 1.1L-1.1 0Z",
    "P": "M-.35-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z",
    "X": "M-1-.5L-.5-1L0-.5L.5-1L1-.5L.5 0L1 .5L.5 1L0 .5L-.5 1L-1 .5L-.5 0Z",
  };
  let setting, point, view; // the setting that is shown, unpacked; the position of the round that is read; how it is drawn

  function draw(tag, attributes, parent) {
    const element = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    parent.append(element);
    return element;
  }

  function number(x) { // as the tables have them
    if (!Number.isFinite(x)) return MISSING;
    const size = Math.abs(x), digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
    return x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  const tickText = (x) => Math.abs(x) >= 1 ? x.toLocaleString("en-US") : String(Number(x.toPrecision(6)));

  function unpack(packed, n) {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const numbers = new Float32Array(bytes.buffer);
    const part = (i) => numbers.subarray(i * n, (i + 1) * n);
    return { regret: part(0), regretSd: part(1), value: part(2), valueSd: part(3), bound: numbers.length > 4 * n ? part(4) : null };
  }

  function chooseSetting() {
    const wanted = data.axes.map(() => 0);
    for (const select of all("select", controls)) wanted[select.dataset.axis] = Number(select.value);
    const position = wanted.reduce((sum, value, axis) => sum * data.axes[axis] + value, 0);
    const packed = data.settings[position];
    setting = { ...packed, position, curves: packed.curves.map((text) => unpack(text, packed.checkpoints.length)) };
    point = setting.checkpoints.length - 1;
    byId("command").textContent = setting.command;
    setting.exponents.forEach((text, i) => { rows[i].exponent.textContent = text; });
    filterRows();
    redraw();
  }

  function quantity() {
    return controls.elements.quantity.value;
  }

  function series(curve) { // mean, deviation and bound of the quantity that is shown
    const name = quantity(), per = name === "regret" ? () => 1 : (i) => setting.checkpoints[i];
    const [mean, sd] = name === "quality" ? [curve.value, curve.valueSd] : [curve.regret, curve.regretSd];
    const divide = (values) => values && Array.from(values, (x, i) => x / per(i));
    return { mean: divide(mean), sd: divide(sd), bound: name === "quality" ? null : divide(curve.bound) };
  }

  function best() { // of the fixed order in hindsight, per round
    const { regret, value } = setting.curves[0], sign = setting.gain ? 1 : -1;
    return Array.from(value, (x, i) => (x + sign * regret[i]) / setting.checkpoints[i]);
  }

  function scale(low, high, from, to, log) {
    const f = log ? Math.log : (x) => x, a = f(low), b = f(high);
    const at = (x) => from + (f(x) - a) / (b - a || 1) * (to - from);
    return Object.assign(at, { low, high, log, inverse: (p) => {
      const x = a + (p - from) / (to - from) * (b - a);
      return log ? Math.exp(x) : x;
    } });
  }

  function ticks({ low, high, log }, most) {
    if (log && high / low > 5) {
      const decades = Math.log10(high / low), inside = (x) => x >= low * (1 - 1e-9) && x <= high * (1 + 1e-9);
      const step = Math.max(1, Math.ceil(decades / most)), factors = decades < 2 ? [1, 2, 5] : [1], found = [];
      for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high) + 1; e += 1) {
        if (e % step === 0) found.push(...factors.map((factor) => Number(`${factor}e${e}`)).filter(inside));
      }
      return found;
    }
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * (1 - 1e-9));
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i += 1) found.push(Number((i * step).toPrecision(12)));
    return found;
  }

  function heights(curves, logY) {
    const means = curves.flatMap((c) => c.mean).filter(Number.isFinite);
    const highs = curves.flatMap((c) => c.mean.map((x, i) => x + (c.sd[i] || 0)));
    if (logY) {
      const least = ROUNDING * Math.max(...means, 0), positive = means.filter((x) => x > least);
      if (!positive.length) return [0.1, 10];
      const tops = [...highs, ...curves.flatMap((c) => c.bound && boundsBox.checked ? c.bound : [])].filter(Number.isFinite);
      return [Math.min(...positive) / 1.3, Math.max(...tops) * 1.3];
    }
    const lows = curves.flatMap((c) => c.mean.map((x, i) => x - (c.sd[i] || 0)));
    let [low, high] = [Math.min(...lows), Math.max(...highs)];
    if (quantity() !== "quality") [low, high] = [Math.min(low, 0), Math.max(high, 0)];
    if (!(high > low)) [low, high] = Number.isFinite(low) ? [low - 1, high + 1] : [0, 1];
    return [low < 0 || quantity() === "quality" ? low - 0.04 * (high - low) : low, high + 0.04 * (high - low)];
  }

  function line(xs, ys, x, y) { // broken where there is no position for a value
    let path = "", pen = "M";
    ys.forEach((value, i) => {
      const fits = Number.isFinite(value) && (!y.log || value > y.low);
      if (fits) path += `${pen}${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = fits ? "L" : "M";
    });
    return path;
  }

  function band(xs, { mean, sd }, x, y) {
    const position = (value) => y(y.log ? Math.max(value, y.low) : value).toFixed(1);
    const inside = xs.map((_, i) => i).filter((i) => Number.isFinite(sd[i]));
    if (!inside.length) return "";
    const up = inside.map((i) => `${x(xs[i]).toFixed(1)} ${position(mean[i] + sd[i])}`);
    const down = inside.reverse().map((i) => `${x(xs[i]).toFixed(1)} ${position(mean[i] - sd[i])}`);
    return `M${up.join("L")}L${down.join("L")}Z`;
  }

  function marker(look, x, y, parent, size = 4.5) {
    draw("path", { d: MARKERS[look.marker], fill: look.colour, transform: `translate(${x} ${y}) scale(${size})` }, parent);
  }

  function markers(at, position, x) { // all of few points, or six positions, other ones than the neighbours'
    if (at.length <= 10) return at.map((_, i) => i);
    const positions = Array.from({ length: 6 }, (_, j) => (j + (position + 0.5) / 4 % 1) / 6);
    const [from, to] = [x(at[0]), x(at[at.length - 1])];
    return positions.map((position) => nearest(from + position * (to - from), at, x));
  }

  function nearest(pixel, at, x) {
    let found = 0;
    at.forEach((t, i) => { if (Math.abs(x(t) - pixel) < Math.abs(x(at[found]) - pixel)) found = i; });
    return found;
  }

  function redraw() {
    const width = chart.clientWidth, height = Math.round(Math.min(440, Math.max(290, width * 0.5)));
    if (!width) return;
    const name = quantity(), { checkpoints: at } = setting;
    if (boundsBox) boundsBox.disabled = name === "quality";
    const logX = byId("log-x").checked, logY = byId("log-y").checked;
    const curves = setting.curves.map(series), visible = curves.filter((_, i) => shown[i]);
    const reference = name === "quality" ? { mean: best(), sd: [], bound: null } : null;
    const [low, high] = heights(visible.length || reference ? [...visible, ...(reference ? [reference] : [])] : curves, logY);
    const [top, bottom] = [30, height - 42];
    const y = scale(low, high, bottom, top, logY), yTicks = ticks(y, Math.max(2, Math.floor((bottom - top) / 48)));
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const yTexts = yTicks.map((value) => {
      const text = draw("text", { class: "tick", y: y(value) + 4, "text-anchor": "end" }, svg);
      text.textContent = tickText(value);
      return text;
    });
    const left = 12 + Math.max(16, ...yTexts.map((text) => text.getComputedTextLength())), right = width - 14;
    const x = scale(at[0], at[at.length - 1] > at[0] ? at[at.length - 1] : at[0] + 1, left, right, logX);
    yTexts.forEach((text, i) => {
      text.setAttribute("x", left - 6);
      draw("path", { d: `M${left} ${y(yTicks[i])}H${right}`, stroke: yTicks[i] === 0 ? "#666666" : "#dddddd" }, svg);
    });
    drawRounds(x, bottom, top, width);
    draw("text", { class: "title", x: 2, y: 14 }, svg).textContent = `${QUANTITIES[name].words} (${setting.measure})`;
    const clip = draw("clipPath", { id: "clip" }, svg);
    draw("rect", { x: left - 5, y: top - 5, width: right - left + 10, height: bottom - top + 10 }, clip);
    const inside = draw("g", { "clip-path": "url(#clip)", fill: "none", "stroke-linejoin": "round" }, svg);
    if (reference) draw("path", { d: line(at, reference.mean, x, y), stroke: "#666666", "stroke-width": 1 }, inside);
    curves.forEach((curve, i) => {
      if (shown[i]) draw("path", { d: band(at, curve, x, y), fill: data.learners[i].colour, opacity: 0.18 }, inside);
    });
    curves.forEach((curve, i) => {
      if (!shown[i]) return;
      const look = data.learners[i];
      draw("path", { class: "curve", d: line(at, curve.mean, x, y), stroke: look.colour, "stroke-width": 1.8 }, inside);
      for (const j of markers(at, i, x)) {
        if (!y.log || curve.mean[j] > y.low) marker(look, x(at[j]), y(curve.mean[j]), inside);
      }
      if (curve.bound && boundsBox.checked) {
        draw("path", { class: "bound", d: line(at, curve.bound, x, y), stroke: look.colour, "stroke-width": 1.4, "stroke-dasharray": "5 7", "stroke-dashoffset": -6 * i }, inside);
      }
    });
    view = { x, y, curves, top, bottom, cross: draw("g", { "clip-path": "url(#clip)" }, svg) };
    caption(reference);
    read();
  }

  function drawRounds(x, bottom, top, width) {
    let free = -Infinity;
    for (const value of ticks(x, Math.max(2, Math.floor(width / 90)))) {
      const text = draw("text", { class: "tick", y: bottom + 17, "text-anchor": "middle" }, svg);
      text.textContent = tickText(value);
      const half = text.getComputedTextLength() / 2, centre = Math.min(x(value), width - half - 1);
      if (centre - half < free) { text.remove(); continue; }
      free = centre + half + 8;
      text.setAttribute("x", centre);
      draw("path", { d: `M${x(value)} ${bottom}V${top}`, stroke: "#eeeeee" }, svg);
    }
    draw("path", { d: `M${x(x.low)} ${bottom}H${x(x.high)}`, stroke: "#666666" }, svg);
    draw("text", { class: "title", x: (x(x.low) + x(x.high)) / 2, y: bottom + 36, "text-anchor": "middle" }, svg).textContent = "rounds";
  }

  function caption(reference) {
    const many = data.settings.length > 1 ? `Setting ${setting.position + 1} of ${data.settings.length}: ` : "";
    const runs = data.runs > 1 ? `mean of ${data.runs} runs, band ± 1 standard deviation` : "a single run, so no band";
    const dashed = quantity() !== "quality" && boundsBox && setting.curves.some((c) => c.bound) ? "; dashed: proved bound at t, for the learner tuned to t rounds" : "";
    const grey = reference ? "; grey: the best fixed order in hindsight" : "";
    const drawn = setting.checkpoints.length === setting.of ? `all ${setting.of}` : `${setting.checkpoints.length} of ${setting.of}`;
    byId("caption").textContent = `${many}${setting.what}; ${runs}${dashed}${grey}. Of each curve ${drawn} recorded points are drawn, without smoothing.`;
  }

  function read() { // the values at the chosen round, under the picture
    const t = setting.checkpoints[point], { x, y, curves, top, bottom, cross } = view, words = QUANTITIES[quantity()].words;
    cross.replaceChildren();
    draw("path", { d: `M${x(t)} ${top}V${bottom}`, stroke: "#333333", "stroke-dasharray": "2 2" }, cross);
    byId("round").textContent = t.toLocaleString("en-US");
    byId("reads").textContent = words;
    const said = curves.map((curve, i) => {
      const mean = curve.mean[point], sd = curve.sd[point];
      rows[i].value.textContent = number(mean) + (Number.isFinite(sd) ? ` ± ${number(sd)}` : "");
      rows[i].bound.textContent = curve.bound ? number(curve.bound[point]) : MISSING;
      if (!shown[i]) return "";
      if (!y.log || mean > y.low) {
        draw("circle", { cx: x(t), cy: y(mean), r: 5, fill: "#ffffff", stroke: data.learners[i].colour, "stroke-width": 2 }, cross);
      }
      return `; ${data.learners[i].name} ${number(mean)}`;
    });
    chart.setAttribute("aria-valuemin", setting.checkpoints[0]);
    chart.setAttribute("aria-valuemax", setting.checkpoints[setting.checkpoints.length - 1]);
    chart.setAttribute("aria-valuenow", t);
    chart.setAttribute("aria-valuetext", `round ${t}, ${words}${said.join("")}`);
  }

  function moveTo(position) {
    point = Math.min(setting.checkpoints.length - 1, Math.max(0, position));
    read();
  }

  function row(look, i) {
    const tr = byId("readout").tBodies[0].insertRow(), label = document.createElement("label");
    const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true, autocomplete: "off" });
    const sample = draw("svg", { viewBox: "0 0 34 14", "aria-hidden": "true" }, label);
    draw("path", { d: "M2 7H32", stroke: look.colour, "stroke-width": 2 }, sample);
    marker(look, 17, 7, sample);
    label.prepend(box);
    label.append(Object.assign(document.createElement("code"), { textContent: look.name }));
    tr.insertCell().append(label);
    box.addEventListener("change", () => {
      shown[i] = box.checked;
      tr.classList.toggle("off", !box.checked);
      redraw();
    });
    const [value, bound, exponent] = [0, 1, 2].map(() => Object.assign(tr.insertCell(), { className: "n" }));
    return { value, bound, exponent };
  }

  function filterRows() {
    const only = all(".only").some((box) => box.checked);
    for (const tr of all(".sort tbody tr")) tr.hidden = only && Number(tr.dataset.c) !== setting.position;
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    const key = (tr, column) => {
      const { dataset, textContent } = tr.cells[column];
      return dataset.v === undefined ? textContent : Number(dataset.v);
    };
    const order = (a, b) => typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
    heads.forEach((head, column) => {
      const button = Object.assign(document.createElement("button"), { type: "button" });
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const keyed = [...body.rows].map((tr) => [key(tr, column), tr]);
        const [missing, present] = [keyed.filter(([k]) => Number.isNaN(k)), keyed.filter(([k]) => !Number.isNaN(k))];
        present.sort(([a], [b]) => down ? order(b, a) : order(a, b));
        body.append(...[...present, ...missing].map(([, tr]) => tr)); // what is missing is last either way
      });
    });
  }

  for (const element of all(".scripted")) element.hidden = false;
  const rows = data.learners.map(row);
  const setLogs = () => {
    const { logX, logY } = QUANTITIES[quantity()];
    [byId("log-x").checked, byId("log-y").checked] = [logX, logY];
  };
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("change", ({ target }) => {
    if (target.name === "quantity") setLogs();
    else if (target.id.startsWith("log-")) QUANTITIES[quantity()][target.id === "log-x" ? "logX" : "logY"] = target.checked;
    if (target.matches("select")) chooseSetting();
    else redraw();
  });
  const pointAt = (event) => moveTo(nearest(event.clientX - svg.getBoundingClientRect().left, setting.checkpoints, view.x));
  chart.addEventListener("pointermove", pointAt);
  chart.addEventListener("pointerdown", pointAt);
  chart.addEventListener("keydown", (event) => {
    const last = setting.checkpoints.length - 1;
    const to = { ArrowLeft: point - 1, ArrowDown: point - 1, ArrowRight: point + 1, ArrowUp: point + 1, PageDown: point - 10, PageUp: point + 10, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    moveTo(to);
  });
  for (const box of all(".only")) {
    box.addEventListener("change", () => {
      for (const other of all(".only")) other.checked = box.checked;
      filterRows();
    });
  }
  all("table.sort").forEach(sortable);
  setLogs();
  chooseSetting();
  let drawnFor = chart.clientWidth;
  new ResizeObserver(() => {
    if (chart.clientWidth !== drawnFor) { drawnFor = chart.clientWidth; redraw(); }
  }).observe(chart);
})();
