"use strict";
// The report's charts. The page holds Plotly, the runs' description and their numbers, packed (gzip, base64);
// they are unpacked once, and each chart is drawn when it comes into sight, or before the page is printed.

const report = { data: null, numbers: null, charts: [], printing: false };
const PRINTED = 640; // pixels that a printed page is wide

// ---- unpacking

function bytesOf(id) {
  const text = document.getElementById(id).textContent;
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let place = 0; place < raw.length; place++) bytes[place] = raw.charCodeAt(place);
  return bytes;
}

function unpacked(id, type = "") {
  const stream = new Blob([bytesOf(id)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream, { headers: { "Content-Type": type } });
}

async function loadPlotly() {
  const address = URL.createObjectURL(await unpacked("plotly", "text/javascript").blob());
  await new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.onload = resolve;
    script.onerror = () => reject(new Error("the charts' program could not be started"));
    script.src = address;
    document.head.append(script);
  });
  URL.revokeObjectURL(address);
}

// The first bytes of all numbers come first, then the second ones, and so on.
async function loadNumbers() {
  const planes = new Uint8Array(await unpacked("numbers").arrayBuffer());
  const count = planes.length / 4;
  const bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < 4; plane++)
    for (let place = 0; place < count; place++) bytes[4 * place + plane] = planes[plane * count + place];
  return new Float32Array(bytes.buffer);
}

// Where each run's numbers are: field by field, run by run.
function addressRuns(data) {
  let total = 0;
  for (const run of data.runs) {
    run.begin = total;
    total += run.points;
  }
  data.total = total;
}

function column(run, field) {
  const begin = report.data.fields.indexOf(field) * report.data.total + run.begin;
  const values = report.numbers.subarray(begin, begin + run.points);
  if (!report.data.logarithms.includes(field)) return values;
  return Float64Array.from(values, (value) => 10 ** value);
}

// ---- statistics, as in gradline.lab.figures.curves

// What is drawn of a value: with the nugget; NaN where a logarithmic scale has no place for it.
function shown(values, measure, logarithmic) {
  return Float64Array.from(values, (value) => {
    if (!logarithmic) return Number.isFinite(value) ? value : NaN;
    const moved = value + measure.nugget;
    return Number.isFinite(moved) && moved > measure.floor ? moved : NaN;
  });
}

// The last of some values known at each point of a grid.
function held(at, values, grid) {
  let place = -1;
  return Float64Array.from(grid, (x) => {
    while (place + 1 < at.length && at[place + 1] <= x) place++;
    return place < 0 ? NaN : values[place];
  });
}

// Mean and standard deviation over runs; on a logarithmic scale, those of logarithms.
function band(rows, logarithmic) {
  const points = rows[0].length;
  const made = { middle: [], low: [], high: [], count: [] };
  const into = logarithmic ? Math.log10 : (value) => value;
  const back = logarithmic ? (value) => 10 ** value : (value) => value;
  for (let place = 0; place < points; place++) {
    const there = rows.map((row) => into(row[place])).filter((value) => !Number.isNaN(value));
    const mean = there.reduce((sum, value) => sum + value, 0) / there.length;
    const deviation = Math.sqrt(there.reduce((sum, value) => sum + (value - mean) ** 2, 0) / there.length);
    made.count.push(there.length);
    made.middle.push(there.length ? back(mean) : null);
    made.low.push(there.length ? back(mean - deviation) : null);
    made.high.push(there.length ? back(mean + deviation) : null);
  }
  return made;
}

// ---- words

const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const whole = (value) => Math.round(value).toLocaleString("en");

function number(value) {
  if (value === null || Number.isNaN(value)) return "none";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(3))) : value.toExponential(2);
}

// ---- what a chart shows

function choices(form) {
  const fields = new FormData(form);
  return {
    facet: Number(fields.get("facet") ?? 0),
    measure: Number(fields.get("measure")),
    panel: fields.get("panel"),
    look: fields.get("look"),
    logarithmic: fields.get("scale") === "log",
    axis: fields.get("axis"),
    lines: fields.getAll("line").map(Number),
  };
}

function ink(line) {
  return isDark() ? line.dark : line.light;
}

function faint(color, opacity) {
  const [red, green, blue] = [1, 3, 5].map((place) => parseInt(color.slice(place, place + 2), 16));
  return `rgba(${red},${green},${blue},${opacity})`;
}

// The runs of one line in one panel, as arrays to draw.
function rowsOf(runs, measure, choice) {
  return runs.map((run) => {
    const truth = column(run, measure.name);
    const x = column(run, choice.axis);
    return { run, x, truth, y: shown(truth, measure, choice.logarithmic) };
  });
}

function runTraces(rows, line, choice, axes, first) {
  const color = ink(line);
  return rows.map((row, place) => ({
    type: "scatter",
    mode: "lines+markers",
    x: Array.from(row.x),
    y: Array.from(row.y, (value) => (Number.isNaN(value) ? null : value)),
    text: Array.from(row.truth, number),
    line: { color, width: 1, dash: line.dash, shape: "hv" },
    marker: { symbol: line.symbol, color, size: 5, maxdisplayed: 3 },
    opacity: 0.7,
    name: escaped(line.label),
    legendgroup: line.label,
    showlegend: first && place === 0,
    hovertemplate: `%{text} at %{x:,} ${choice.axis}<extra>${escaped(line.label)}, seed ${row.run.seed}</extra>`,
    ...axes,
  }));
}

function meanTraces(rows, line, choice, axes, first) {
  const color = ink(line);
  let x = rows[0].x;
  let lines = rows.map((row) => row.y);
  if (choice.axis === "iterations") {
    // As far as all runs go, on a grid that all share.
    const last = Math.min(...rows.map((row) => row.x[row.x.length - 1]));
    x = Float64Array.from({ length: 301 }, (_, place) => Math.round((place * last) / 300));
    lines = rows.map((row) => held(row.x, row.y, x));
  }
  const made = band(lines, choice.logarithmic);
  const shared = { type: "scatter", x: Array.from(x), legendgroup: line.label, ...axes };
  const edge = { ...shared, mode: "lines", line: { width: 0, color, shape: "hv" }, hoverinfo: "skip", showlegend: false };
  const text = made.middle.map(
    (value, place) =>
      `${number(value)} (${number(made.low[place])} to ${number(made.high[place])}; ${made.count[place]} of ${rows.length} runs)`,
  );
  return [
    { ...edge, y: made.low },
    { ...edge, y: made.high, fill: "tonexty", fillcolor: faint(color, 0.18) },
    {
      ...shared,
      mode: "lines+markers",
      y: made.middle,
      text,
      line: { color, width: 2, dash: line.dash, shape: "hv" },
      marker: { symbol: line.symbol, color, size: 7, maxdisplayed: 6 },
      name: escaped(line.label),
      showlegend: first,
      hovertemplate: `%{text} at %{x:,} ${choice.axis}<extra>${escaped(line.label)}</extra>`,
    },
  ];
}

function pageColors() {
  const css = getComputedStyle(document.documentElement);
  const dark = isDark();
  const read = (name, light) => (report.printing ? light : css.getPropertyValue(name).trim());
  return { text: read("--text", "#000000"), line: read("--line", "#bbbbbb"), page: read("--page", "#ffffff"), dark };
}

function isDark() {
  if (report.printing) return false;
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function baseLayout(width, height) {
  const colors = pageColors();
  return {
    width,
    height,
    autosize: false,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colors.text, size: 13, family: "system-ui, sans-serif" },
    margin: { l: 62, r: 12, t: 34, b: 46 },
    hoverlabel: { bgcolor: colors.page, bordercolor: colors.text, font: { color: colors.text } },
    legend: { orientation: "h", x: 0, xanchor: "left", y: 0, yref: "container", yanchor: "bottom" },
    dragmode: "zoom",
    hovermode: "closest",
  };
}

// How many rows a legend takes, about.
function legendRows(chart, choice, width) {
  const longest = Math.max(0, ...choice.lines.map((line) => 62 + 7.2 * chart.lines[line].label.length));
  const fit = Math.max(1, Math.floor((width - 80) / longest));
  return Math.ceil(choice.lines.length / fit);
}

// Panels side by side where there is room, with one vertical axis for all.
function panelLayout(chart, panels, measure, choice, width) {
  const columns = Math.min(panels.length, width < 480 ? 1 : width < 860 ? 2 : 4);
  const rows = Math.ceil(panels.length / columns);
  const each = panels.length === 1 ? 380 : 250;
  const legend = legendRows(chart, choice, width);
  const layout = baseLayout(width, rows * each + 62 + 24 * legend);
  layout.margin.b = 58 + 24 * legend;
  layout.annotations = [];
  const colors = pageColors();
  const [gap, rise] = [columns > 1 ? 0.035 : 0, rows > 1 ? 70 / (rows * each) : 0];
  const [wide, high] = [(1 - gap * (columns - 1)) / columns, (1 - rise * (rows - 1)) / rows];
  panels.forEach((panel, place) => {
    const suffix = place ? String(place + 1) : "";
    const [column, row] = [place % columns, Math.floor(place / columns)];
    const [left, top] = [column * (wide + gap), 1 - row * (high + rise)];
    const axis = { gridcolor: colors.line, linecolor: colors.line, zeroline: false, automargin: false };
    const bottom = place + columns >= panels.length;
    layout[`xaxis${suffix}`] = {
      ...axis,
      domain: [left, left + wide],
      anchor: `y${suffix}`,
      title: { text: bottom ? choice.axis : "", standoff: 6 },
      matches: place ? "x" : undefined,
      nticks: 5,
      rangemode: "tozero",
    };
    layout[`yaxis${suffix}`] = {
      ...axis,
      domain: [top - high, top],
      anchor: `x${suffix}`,
      type: choice.logarithmic ? "log" : "linear",
      exponentformat: "power",
      nticks: 7,
      showticklabels: column === 0,
      title: { text: column === 0 ? escaped(measure.words) : "", standoff: 4 },
      matches: place ? "y" : undefined,
    };
    if (chart.panels.length > 1)
      layout.annotations.push({
        text: `<b>${escaped(chart.panels[panel])}</b>`,
        ...{ x: left, xref: "paper", xanchor: "left", y: top, yref: "paper", yanchor: "bottom" },
        showarrow: false,
      });
  });
  return layout;
}

const CONFIG = { responsive: false, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"], scrollZoom: false };

// ---- a chart of curves

class Curves {
  constructor(article) {
    this.article = article;
    this.form = article.querySelector("form");
    this.place = article.querySelector(".chart");
    this.status = article.querySelector(".status");
    this.chart = report.data.charts[article.dataset.chart];
    this.follow();
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", (event) => {
      if (event.target.name === "measure") this.follow();
      this.draw(true);
    });
    this.form.querySelector(".reset").addEventListener("click", () => this.reset());
    this.form.querySelector(".download").addEventListener("click", () => this.download());
    this.place.addEventListener("keydown", (event) => moveByKey(event, this));
  }

  // A measure comes with its scale and its axis, as the paper shows it; both can be changed after.
  follow() {
    const measure = this.chart.measures[Number(this.form.elements.measure.value)];
    this.form.elements.scale.value = measure.logarithmic ? "log" : "linear";
    this.form.elements.axis.value = measure.against;
  }

  draw(announce) {
    const choice = choices(this.form);
    const { chart } = this;
    const measure = chart.measures[choice.measure];
    const panels = choice.panel === "all" ? chart.panels.map((_, place) => place) : [Number(choice.panel)];
    const traces = [];
    const named = new Set();
    let count = 0;
    panels.forEach((panel, place) => {
      const axes = place ? { xaxis: `x${place + 1}`, yaxis: `y${place + 1}` } : { xaxis: "x", yaxis: "y" };
      for (const number of choice.lines) {
        const runs = chart.runs
          .filter(([, facet, at, line]) => facet === choice.facet && at === panel && line === number)
          .map(([run]) => report.data.runs[run]);
        const line = chart.lines[number];
        // Runs of different budgets have grids of their own, and no mean.
        for (const budget of new Set(runs.map((run) => run.budget))) {
          const rows = rowsOf(runs.filter((run) => run.budget === budget), measure, choice);
          const make = choice.look === "mean" ? meanTraces : runTraces;
          traces.push(...make(rows, line, choice, axes, !named.has(number)));
          named.add(number);
          count += rows.length;
        }
      }
    });
    this.measure = measure;
    this.choice = choice;
    const width = report.printing ? PRINTED : this.place.clientWidth;
    const layout = panelLayout(chart, panels, measure, choice, width);
    layout.showlegend = true;
    if (choice.logarithmic) limitReach(layout, traces);
    this.layout = layout;
    this.drawn = true;
    Plotly.react(this.place, traces, layout, CONFIG);
    if (announce) this.say(choice, measure, panels, count);
  }

  say(choice, measure, panels, count) {
    const { chart } = this;
    const parts = [chart.facets.length > 1 ? chart.facets[choice.facet] : "", measure.words];
    parts.push(panels.length === 1 && chart.panels.length > 1 ? chart.panels[panels[0]] : "");
    parts.push(choice.look === "mean" ? "mean and one standard deviation" : "all runs");
    parts.push(`${choice.logarithmic ? "log" : "linear"} scale, against ${choice.axis}`);
    this.status.textContent = count
      ? `Shown: ${parts.filter(Boolean).join(", ")}; ${count} ${count === 1 ? "run" : "runs"}.`
      : "Nothing is chosen, so nothing is shown.";
  }

  reset() {
    this.draw(false);
    Plotly.relayout(this.place, rangesOf(this.layout));
    this.status.textContent = "All of it is shown.";
  }

  download() {
    const fields = report.data.fields;
    const names = ["problem", "method", "batch_size", "seed", "sampling", "direction_batch_size", ...fields];
    const lines = [names.join(",")];
    for (const [place] of this.chart.runs) {
      const run = report.data.runs[place];
      const settings = names.slice(0, 6).map((name) => quoted(run[name])).join(",");
      const columns = fields.map((field) => column(run, field));
      for (let point = 0; point < run.points; point++)
        lines.push(`${settings},${columns.map((values) => plain(values[point])).join(",")}`);
    }
    save(`${this.chart.id}.csv`, lines);
  }
}

// A few steps of 1e-140 would hide all others.
function limitReach(layout, traces) {
  let [low, high] = [Infinity, -Infinity];
  for (const trace of traces)
    for (const value of trace.y)
      if (value > 0) {
        if (value < low) low = value;
        if (value > high) high = value;
      }
  if (low > high) return;
  const [from, to] = [Math.max(Math.log10(low), -16), Math.min(Math.log10(high), 16)];
  const room = Math.max(0.04 * (to - from), 0.05);
  const decades = to - from;
  const ticks = decades < 1.6 ? { dtick: "D2" } : { dtick: Math.ceil(decades / 6) };
  for (const name of Object.keys(layout))
    if (name.startsWith("yaxis")) Object.assign(layout[name], ticks, { range: [from - room, to + room] });
}

function rangesOf(layout) {
  const ranges = {};
  for (const name of Object.keys(layout))
    if (/^[xy]axis/.test(name)) {
      if (layout[name].range) ranges[`${name}.range`] = [...layout[name].range];
      else ranges[`${name}.autorange`] = true;
    }
  return ranges;
}

// Arrows move, plus and minus zoom, 0 resets.
function moveByKey(event, chart) {
  if (event.ctrlKey || event.metaKey || event.altKey || !chart.drawn) return;
  const moves = { ArrowLeft: ["x", -0.15, 1], ArrowRight: ["x", 0.15, 1], ArrowDown: ["y", -0.15, 1], ArrowUp: ["y", 0.15, 1] };
  const zooms = { "+": 0.7, "=": 0.7, "-": 1 / 0.7 };
  if (event.key === "0") chart.reset();
  else if (event.key in moves || event.key in zooms) {
    const changes = {};
    const move = (letter, shift, zoom) => {
      const [from, to] = chart.place.layout[`${letter}axis`].range.map(Number);
      const [middle, half] = [(from + to) / 2 + shift * (to - from), ((to - from) / 2) * zoom];
      changes[`${letter}axis.range`] = [middle - half, middle + half];
    };
    if (event.key in moves) move(...moves[event.key]);
    else for (const letter of "xy") move(letter, 0, zooms[event.key]);
    Plotly.relayout(chart.place, changes);
  } else return;
  event.preventDefault();
}

// ---- a chart of fields

class Heat {
  constructor(article) {
    this.form = article.querySelector("form");
    this.place = article.querySelector(".chart");
    this.status = article.querySelector(".status");
    this.heat = report.data.heat;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", () => this.draw(true));
    this.form.querySelector(".reset").addEventListener("click", () => this.reset());
    this.form.querySelector(".download").addEventListener("click", () => this.download());
    this.place.addEventListener("keydown", (event) => moveByKey(event, this));
  }

  draw(announce) {
    const { heat } = this;
    const method = Number(this.form.elements.method.value);
    const measure = heat.measures[Number(this.form.elements.measure.value)];
    const values = measure.values[method];
    const loss = measure.name === "train_loss";
    const written = (value) => (value === null ? "" : loss ? number(value) : `${number(100 * value)}%`);
    const colors = pageColors();
    const trace = {
      type: "heatmap",
      x: heat.sizes.map(String),
      y: heat.directions.map(String),
      z: values.map((row) => row.map((value) => (value === null ? null : loss ? Math.log10(value) : value))),
      text: values.map((row) => row.map(written)),
      texttemplate: "%{text}",
      colorscale: "Cividis",
      showscale: false,
      xgap: 2,
      ygap: 2,
      customdata: heat.runs[method],
      hovertemplate: "%{text}, median of %{customdata} runs<br>direction of %{y}, step of %{x} samples<extra></extra>",
    };
    const width = Math.min(report.printing ? PRINTED : this.place.clientWidth, 640);
    const layout = baseLayout(width, 400);
    const axis = { type: "category", linecolor: colors.line, zeroline: false };
    layout.margin.t = 12;
    layout.xaxis = { ...axis, title: { text: "samples that give the step" } };
    layout.yaxis = { ...axis, title: { text: "samples that give the direction" } };
    this.layout = layout;
    this.drawn = true;
    Plotly.react(this.place, [trace], layout, CONFIG);
    if (announce) this.status.textContent = `Shown: ${heat.methods[method]}, ${measure.words}.`;
  }

  reset() {
    Plotly.relayout(this.place, { "xaxis.autorange": true, "yaxis.autorange": true });
    this.status.textContent = "All of it is shown.";
  }

  download() {
    const { heat } = this;
    const lines = ["method,direction_batch_size,batch_size,runs,train_loss,test_error"];
    heat.methods.forEach((method, m) =>
      heat.directions.forEach((direction, d) =>
        heat.sizes.forEach((size, s) =>
          lines.push(
            [quoted(method), direction, size, heat.runs[m][d][s], ...heat.measures.map((one) => plain(one.values[m][d][s]))].join(","),
          ),
        ),
      ),
    );
    save("direction_vs_step.csv", lines);
  }
}

// ---- downloads

// A cell of CSV; one that a spreadsheet would take for a formula is kept from it.
function quoted(value) {
  if (value === null || value === undefined) return "";
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

function plain(value) {
  if (value === null || Number.isNaN(value)) return "";
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

function save(name, lines) {
  const address = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function saveTable(button) {
  const table = report.data.tables[button.dataset.table];
  const lines = [table.columns.map(quoted).join(","), ...table.data.map((row) => row.map(quoted).join(","))];
  save(`${button.dataset.name}.csv`, lines);
}

// ---- the page

function redrawAll() {
  for (const chart of report.charts) if (chart.drawn) chart.draw(false);
}

function setUpTheme() {
  const button = document.getElementById("theme");
  const name = () => {
    button.textContent = isDark() ? "Light colours" : "Dark colours";
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
    redrawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    name();
    redrawAll();
  });
  name();
}

function setUpPrinting() {
  addEventListener("beforeprint", () => {
    report.printing = true;
    for (const chart of report.charts) chart.draw(false);
  });
  addEventListener("afterprint", () => {
    report.printing = false;
    redrawAll();
  });
}

function setUpWidth() {
  let width = innerWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => report.printing || redrawAll(), 150);
  });
}

async function start() {
  setUpTheme();
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old to unpack them");
  const [data, numbers] = await Promise.all([unpacked("data").json(), loadNumbers(), loadPlotly()]);
  addressRuns(data);
  Object.assign(report, { data, numbers });
  const byPlace = new Map();
  for (const article of document.querySelectorAll("[data-chart], [data-heat]")) {
    const chart = article.dataset.chart ? new Curves(article) : new Heat(article);
    report.charts.push(chart);
    byPlace.set(chart.place, chart);
  }
  for (const button of document.querySelectorAll("[data-table]")) button.addEventListener("click", () => saveTable(button));
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries)
        if (entry.isIntersecting) {
          const chart = byPlace.get(entry.target);
          if (!chart.drawn) chart.draw(true);
          watch.unobserve(entry.target);
        }
    },
    { rootMargin: "400px" },
  );
  for (const place of byPlace.keys()) watch.observe(place);
  setUpPrinting();
  setUpWidth();
  document.getElementById("waiting").hidden = true;
  document.documentElement.dataset.ready = "true";
  performance.mark("ready");
}

start().catch((error) => {
  const trouble = document.getElementById("trouble");
  trouble.textContent = `The charts cannot be shown: ${error.message}. The tables do not need them.`;
  trouble.hidden = false;
  document.getElementById("waiting").hidden = true;
});
