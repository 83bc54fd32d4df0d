"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, LEFT, RIGHT, LANE, COLUMN] = [1100, 150, 130, 26, 90];
let shown = [];
let chosen = -1;

function draw(parent, name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}

function time(value, step) {
  if (!data.calendar) return String(Math.round(value * 1e6) / 1e6);
  const text = new Date(value).toISOString();
  if (step >= 86400000) return text.slice(0, 10);
  return text.slice(11, step < 1000 ? 23 : 19);
}

function niceStep(length) {
  const clock = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4,
    3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5];
  const raw = length / 7;
  if (data.calendar && raw <= 864e5) return clock.find((step) => step >= raw) || 864e5;
  const unit = data.calendar ? 864e5 : 1;
  const power = 10 ** Math.floor(Math.log10(raw / unit));
  const times = [1, 2, 5, 10].find((n) => n * power >= raw / unit);
  return Math.max(times * power * unit, data.calendar ? unit : 0);
}

function drawMatch(match) {
  const [low, high, start, end, report] = match.around.span;
  const lanes = data.symbols.length * LANE;
  const height = lanes + data.columns.length * COLUMN + 40;
  const svg = draw(document.createDocumentFragment(), "svg",
    {viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `time line: ${match.cells.join(", ")}`});
  const x = (at) => LEFT + (Math.min(Math.max(at, low), high) - low) / (high - low) * (WIDTH - LEFT - RIGHT);
  draw(svg, "rect", {class: "span", x: x(start), y: 0, width: Math.max(x(end) - x(start), 1), height: height - 22});
  const step = niceStep(high - low);
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
    draw(svg, "line", {x1: x(at), x2: x(at), y1: 0, y2: height - 22});
    draw(svg, "text", {x: x(at), y: height - 7, "text-anchor": "middle"}, time(at, step));
  }
  data.symbols.forEach((symbol, n) =>
    draw(svg, "text", {class: "name", x: LEFT - 10, y: n * LANE + 17, "text-anchor": "end"}, symbol));
  for (const [symbol, from, to, state, says] of match.around.bars) {
    const bar = draw(svg, "rect", {class: `s${state}`, x: x(from), y: symbol * LANE + 5,
      width: Math.max(x(to) - x(from), 1.5), height: LANE - 9});
    draw(bar, "title", {}, `${data.symbols[symbol]}: ${says} (${data.states[state]})`);
  }
  data.columns.forEach((column, n) =>
    drawColumn(svg, column, match.around.columns[n], x, lanes + n * COLUMN + 8, COLUMN - 14));
  draw(draw(svg, "line", {class: "report", x1: x(report), x2: x(report), y1: 0, y2: height - 22}),
    "title", {}, "reported");
  draw(svg, "text", {x: x(report) + 4, y: 10}, "reported");
  return svg;
}

function drawColumn(svg, column, [times, values], x, top, height) {
  const all = values.filter((value) => value !== null).concat(column.limits.map((l) => l.value));
  const least = Math.min(...all), most = Math.max(...all);
  const y = (value) => top + height - (value - least) / (most - least || 1) * height;
  draw(svg, "text", {class: "name", x: LEFT - 10, y: top + height / 2 + 4, "text-anchor": "end"}, column.name);
  draw(svg, "line", {x1: LEFT, x2: WIDTH - RIGHT, y1: top + height, y2: top + height});
  for (const limit of column.limits) {
    draw(svg, "line", {class: "limit", x1: LEFT, x2: WIDTH - RIGHT, y1: y(limit.value), y2: y(limit.value)});
    draw(svg, "text", {class: "limit", x: WIDTH - RIGHT + 5, y: y(limit.value) + 4}, limit.says);
  }
  let path = "", last = null;
  values.forEach((value, n) => {
    if (value === null) { last = null; return; }
    const point = `${x(times[n]).toFixed(1)}`;
    path += last === null ? `M${point} ${y(value).toFixed(1)}` : `H${point}V${y(value).toFixed(1)}`;
    last = value;
  });
  draw(svg, "path", {d: path});
  values.forEach((value, n) => {
    if (value === null) return;
    const dot = draw(svg, "circle", {cx: x(times[n]), cy: y(value), r: 4, "fill-opacity": 0});
    draw(dot, "title", {}, `${column.name} ${Number(value.toPrecision(6))} at ${time(times[n], 1)}`);
  });
}

function choose(number) {
  chosen = Math.min(Math.max(number, 0), shown.length - 1);
  const rows = byId("found").children;
  for (let n = 0; n < rows.length; n++) {
    rows[n].setAttribute("aria-selected", String(n === chosen));
    rows[n].tabIndex = n === Math.max(chosen, 0) ? 0 : -1;
  }
  const match = shown[chosen];
  byId("line").replaceChildren(...(match ? [drawMatch(match)] : []));
  byId("which").textContent = match ? `match ${match.number}${match.partition ? ", " + match.partition : ""}` : "";
}

function filter() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const partition = byId("partition").value;
  shown = data.matches.filter((match) => (partition === "" || match.key === Number(partition)) &&
    words.every((word) => match.cells.some((cell) => cell.toLowerCase().includes(word))));
  byId("found").replaceChildren(...shown.map((match, n) => {
    const row = document.createElement("tr");
    for (const cell of [String(match.number), ...match.cells]) {
      const node = document.createElement("td");
      node.textContent = cell;
      row.appendChild(node);
    }
    row.addEventListener("click", () => choose(n));
    return row;
  }));
  byId("count").textContent = `${shown.length} of ${data.matches.length} shown`;
  choose(0);
}

byId("found").addEventListener("keydown", (event) => {
  const moves = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity};
  if (!(event.key in moves)) return;
  event.preventDefault();
  choose(chosen + moves[event.key]);
  byId("found").children[chosen].focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/INPUT|SELECT/.test(document.activeElement.tagName)) {
    event.preventDefault();
    byId("search").focus();
  }
});
byId("search").addEventListener("input", filter);
byId("partition").addEventListener("change", filter);
for (const button of document.querySelectorAll("button[data-key]")) {
  button.addEventListener("click", () => {
    byId("partition").value = button.dataset.key;
    filter();
    byId("matches").scrollIntoView();
  });
}
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
filter();
