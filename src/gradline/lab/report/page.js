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

// ---- the view in the address

// What a form says: a value for each name, of several boxes their values together.
function fieldsOf(form) {
  const fields = {};
  for (const field of form.elements) {
    if (!field.name) continue;
    if (field.type === "checkbox") fields[field.name] = [...(fields[field.name] ?? []), ...(field.checked ? [field.value] : [])];
    else if (field.type !== "radio" || field.checked) fields[field.name] = field.value;
  }
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, String(value)]));
}

function setField(form, name, text) {
  for (const field of form.elements) {
    if (field.name !== name) continue;
    if (field.type === "checkbox") field.checked = text.split(",").includes(field.value);
    else if (field.type === "radio") field.checked = field.value === text;
    else if ([...field.options].some((option) => option.value === text)) field.value = text;
  }
}

// The address says what is shown, where that is not what a page shows at first.
function remember(id) {
  const view = new URLSearchParams({ at: id });
  for (const chart of report.charts) {
    const fields = fieldsOf(chart.form);
    if (JSON.stringify(fields) !== chart.initial)
      for (const [name, value] of Object.entries(fields)) view.set(`${chart.id}.${name}`, value);
    if (chart.zoom) view.set(`${chart.id}.zoom`, chart.zoom.map((end) => Number(end.toPrecision(6))).join(","));
  }
  for (const table of document.querySelectorAll("table[data-sorted]")) view.set(`${table.id}.sort`, table.dataset.sorted);
  if (document.documentElement.dataset.theme) view.set("theme", document.documentElement.dataset.theme);
  history.replaceState(null, "", `#${view}`);
}

function restore() {
  const view = new URLSearchParams(location.hash.slice(1));
  if (!view.has("at")) return;
  if (["light", "dark"].includes(view.get("theme"))) document.documentElement.dataset.theme = view.get("theme");
  for (const chart of report.charts) {
    const fields = Object.keys(JSON.parse(chart.initial)).filter((name) => view.has(`${chart.id}.${name}`));
    for (const name of fields) {
      setField(chart.form, name, view.get(`${chart.id}.${name}`));
      chart.restored?.(name);
    }
    const zoom = (view.get(`${chart.id}.zoom`) ?? "").split(",").map(Number);
    chart.zoom = zoom.length === 4 && zoom.every(Number.isFinite) ? zoom : null;
    if (chart.drawn) chart.draw(true);
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const [column, order] = (view.get(`${table.id}.sort`) ?? "").split(".");
    if (table.tHead.rows[0].cells[Number(column)] && order) sortTable(table, Number(column), order === "down");
  }
  document.getElementById(view.get("at"))?.scrollIntoView({ behavior: "instant" });
}

// ---- what all charts have

// Only these buttons: others of Plotly's would send a chart to a server.
const CONFIG = {
  responsive: false,
  displaylogo: false,
  scrollZoom: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtons: [["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"], ["toImage"]],
};

class View {
  constructor(article) {
    this.id = article.id;
    this.article = article;
    this.form = article.querySelector("form");
    this.place = article.querySelector(".chart");
    this.status = article.querySelector(".status");
    this.zoom = null; // from and to, of x and of y
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", (event) => {
      this.zoom = null;
      this.changed(event.target);
      this.draw(true);
      remember(this.id);
    });
    this.form.querySelector(".reset")?.addEventListener("click", () => this.reset());
    this.form.querySelector(".download")?.addEventListener("click", () => this.download());
    this.place.addEventListener("keydown", (event) => moveByKey(event, this));
  }

  changed() {}

  width() {
    return report.printing ? PRINTED : this.place.clientWidth;
  }

  show(traces, layout) {
    this.layout = layout;
    this.ranges = rangesOf(layout);
    if (this.zoom) {
      layout.xaxis.range = this.zoom.slice(0, 2);
      layout.yaxis.range = this.zoom.slice(2);
    }
    Plotly.react(this.place, traces, layout, CONFIG);
    if (!this.drawn) {
      this.place.on("plotly_relayout", (event) => this.zoomed(event));
      this.place.on("plotly_legendclick", (event) => this.pick(event, false));
      this.place.on("plotly_legenddoubleclick", (event) => this.pick(event, true));
    }
    this.drawn = true;
  }

  zoomed(event) {
    const names = Object.keys(event);
    if (!names.some((name) => /^[xy]axis\d*\.(range|autorange)/.test(name))) return;
    const { xaxis, yaxis } = this.place.layout;
    const ends = [...xaxis.range, ...yaxis.range].map(Number);
    const whole = names.some((name) => name.endsWith("autorange")) || this.resetting;
    this.resetting = false;
    this.zoom = whole || !ends.every(Number.isFinite) ? null : ends;
    remember(this.id);
  }

  // A click in the legend is one on a check box, where there are any.
  pick(event, alone) {
    const boxes = [...this.form.querySelectorAll("input[name=line]")];
    const chosen = boxes.find((box) => box.value === String(event.data[event.curveNumber].meta));
    if (!chosen) return boxes.length === 0;
    const others = boxes.some((box) => box !== chosen && box.checked);
    if (alone) for (const box of boxes) box.checked = box === chosen || !others;
    else chosen.checked = !chosen.checked;
    this.draw(true);
    remember(this.id);
    return false;
  }

  reset() {
    this.zoom = null;
    this.draw(false);
    this.resetting = true;
    Plotly.relayout(this.place, this.ranges);
    this.status.textContent = "All of it is shown.";
    remember(this.id);
  }
}

// ---- a chart of curves

function choices(form) {
  const fields = new FormData(form);
  return {
    facet: fields.get("facet") ?? "0",
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

// A line that is not chosen stays in the legend, so that a click there brings it back.
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
  return { text: read("--text", "#000000"), line: read("--line", "#bbbbbb"), page: read("--page", "#ffffff"), quiet: read("--quiet", "#444444"), dark };
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
    margin: { l: 68, r: 12, t: 56, b: 46 }, // the buttons are above all titles
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colors.quiet, activecolor: colors.text },
    hoverlabel: { bgcolor: colors.page, bordercolor: colors.text, font: { color: colors.text } },
    legend: { orientation: "h", x: 0, xanchor: "left", y: 0, yref: "container", yanchor: "bottom" },
    dragmode: "zoom",
    hovermode: "closest",
  };
}

// How many rows a legend takes, about: it is as wide as the panels above it.
function legendRows(labels, room) {
  const longest = Math.max(0, ...labels.map((label) => 62 + 7.2 * label.length));
  return Math.ceil(labels.length / Math.max(1, Math.floor(room / longest)));
}

// The panels that are shown: of all facets and panels, or of one of each.
function panelsOf(chart, choice) {
  const places = (names, chosen) => (chosen === "all" ? names.map((_, place) => place) : [Number(chosen)]);
  const facets = places(chart.facets, choice.facet);
  const panels = places(chart.panels, choice.panel);
  const name = (facet, panel) =>
    [facets.length > 1 ? chart.facets[facet] : "", chart.panels.length > 1 ? chart.panels[panel] : ""].filter(Boolean).join(", ");
  return facets.flatMap((facet) =>
    panels.filter((panel) => facets.length === 1 || chart.runs.some(([, f, p]) => f === facet && p === panel))
      .map((panel) => ({ facet, panel, name: name(facet, panel) })),
  );
}

// Panels side by side where there is room, with one vertical axis for all.
function panelLayout(chart, panels, measure, choice, width) {
  const columns = Math.min(panels.length, width < 480 ? 1 : width < 860 ? 2 : panels.length === 3 ? 3 : 4);
  const rows = Math.ceil(panels.length / columns);
  const each = panels.length === 1 ? 380 : 250;
  const legend = legendRows(chart.lines.map((line) => line.label), width - 80);
  const layout = baseLayout(width, rows * each + 84 + 24 * legend);
  layout.margin.b = 58 + 24 * legend;
  layout.annotations = [];
  const colors = pageColors();
  const [gap, rise] = [columns > 1 ? 0.035 : 0, rows > 1 ? 70 / (rows * each) : 0];
  const [wide, high] = [(1 - gap * (columns - 1)) / columns, (1 - rise * (rows - 1)) / rows];
  panels.forEach(({ name }, place) => {
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
    if (name)
      layout.annotations.push({
        text: `<b>${escaped(name)}</b>`,
        ...{ x: left, xref: "paper", xanchor: "left", y: top, yref: "paper", yanchor: "bottom" },
        showarrow: false,
      });
  });
  return layout;
}

class Curves extends View {
  constructor(article) {
    super(article);
    this.chart = report.data.charts[article.id];
    if (this.chart.facets.length > 1) this.form.elements.facet.value = "0";
    this.follow();
  }

  changed(field) {
    if (field.name === "measure") this.follow();
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
    const panels = panelsOf(chart, choice);
    const traces = [];
    const named = new Set();
    let count = 0;
    panels.forEach(({ facet, panel }, place) => {
      const axes = place ? { xaxis: `x${place + 1}`, yaxis: `y${place + 1}` } : { xaxis: "x", yaxis: "y" };
      chart.lines.forEach((line, number) => {
        const runs = chart.runs
          .filter(([, f, p, l]) => f === facet && p === panel && l === number)
          .map(([run]) => report.data.runs[run]);
        const chosen = choice.lines.includes(number);
        // Runs of different budgets have grids of their own, and no mean.
        for (const budget of new Set(runs.map((run) => run.budget))) {
          const rows = rowsOf(runs.filter((run) => run.budget === budget), measure, choice);
          const make = choice.look === "mean" ? meanTraces : runTraces;
          const made = make(rows, line, choice, axes, !named.has(number));
          traces.push(...made.map((trace) => ({ ...trace, meta: number, visible: chosen || "legendonly" })));
          named.add(number);
          if (chosen) count += rows.length;
        }
      });
    });
    const layout = panelLayout(chart, panels, measure, choice, this.width());
    layout.showlegend = true;
    if (choice.logarithmic) limitReach(layout, traces.filter((trace) => trace.visible === true));
    this.show(traces, layout);
    if (announce) this.say(choice, measure, panels, count);
  }

  say(choice, measure, panels, count) {
    const { chart } = this;
    const parts = [chart.facets.length > 1 ? (chart.facets[choice.facet] ?? `all of ${chart.facets.join(", ")}`) : "", measure.words];
    parts.push(choice.panel !== "all" && chart.panels.length > 1 ? chart.panels[choice.panel] : "");
    parts.push(choice.look === "mean" ? "mean and one standard deviation" : "all runs");
    parts.push(`${choice.logarithmic ? "log" : "linear"} scale, against ${choice.axis}`);
    this.status.textContent = count
      ? `Shown: ${parts.filter(Boolean).join(", ")}; ${count} ${count === 1 ? "run" : "runs"}.`
      : "Nothing is chosen, so nothing is shown.";
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
    save(`${this.id}.csv`, lines);
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

class Heat extends View {
  constructor(article) {
    super(article);
    this.heat = report.data.heat;
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
    const width = Math.min(this.width(), 640);
    const layout = baseLayout(width, 400);
    const axis = { type: "category", linecolor: colors.line, zeroline: false };
    layout.xaxis = { ...axis, title: { text: "samples that give the step" } };
    layout.yaxis = { ...axis, title: { text: "samples that give the direction" } };
    this.show([trace], layout);
    if (announce) this.status.textContent = `Shown: ${heat.methods[method]}, ${measure.words}.`;
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

// ---- charts with a row for each setting

// Rows from above; their names at the left, in several lines where the page is narrow; a legend below them.
function rowLayout(names, width, labels) {
  const narrow = width < 620;
  const shown = names.map((name) => (narrow ? escaped(name).replace(/, /g, ",<br>").replace(/ (?=with )/g, "<br>") : escaped(name)));
  const longest = Math.max(...shown.flatMap((name) => name.split("<br>").map((part) => part.length)));
  const lines = Math.max(...shown.map((name) => name.split("<br>").length));
  const left = Math.min(16 + 7 * longest, width * 0.5);
  const legend = legendRows(labels, width - left - 12);
  const layout = baseLayout(width, 120 + 24 * legend + names.length * Math.max(24, 16 * lines + 6));
  const colors = pageColors();
  layout.margin.t = 40;
  layout.margin.l = left;
  layout.margin.b = 58 + 24 * legend;
  const axis = { gridcolor: colors.line, linecolor: colors.line, zeroline: false };
  layout.xaxis = { ...axis, nticks: 6 };
  layout.yaxis = {
    ...axis,
    tickvals: names.map((_, place) => place),
    ticktext: shown,
    range: [names.length - 0.2, -0.8],
    showgrid: true,
  };
  return layout;
}

function logarithmicAxis(axis, values) {
  const there = values.filter((value) => value > 0 && Number.isFinite(value)).map(Math.log10);
  if (!there.length) return;
  const [low, high] = [Math.max(Math.min(...there), -16), Math.min(Math.max(...there), 16)];
  const room = Math.max(0.05 * (high - low), 0.1);
  Object.assign(axis, { type: "log", exponentformat: "power", range: [low - room, high + room] });
  axis.dtick = high - low < 1.2 ? "D1" : Math.ceil((high - low) / 6);
}

// The best of each row, and all others.
class Overview extends View {
  constructor(article) {
    super(article);
    this.data = report.data.overview;
  }

  changed() {
    const { value } = this.form.elements.measure;
    for (const table of this.article.querySelectorAll(".matrix")) table.hidden = table.dataset.measure !== value;
  }

  restored() {
    this.changed();
  }

  rows() {
    const chosen = this.form.elements.problem.value;
    const problems = [...new Set(this.data.problems)];
    return this.data.settings.map((_, row) => row).filter((row) => chosen === "all" || this.data.problems[row] === problems[chosen]);
  }

  draw(announce) {
    const { data } = this;
    const measure = data.measures[Number(this.form.elements.measure.value)];
    const rows = this.rows();
    const colors = pageColors();
    const at = (method) => (data.methods.length > 1 ? 0.36 * (method / (data.methods.length - 1) - 0.5) : 0);
    const traces = data.methods.map((method, number) => {
      const there = rows
        .map((row, place) => ({ place, row, cell: measure.cells[row][number] }))
        .filter(({ cell }) => cell !== null && cell.value !== null);
      const middle = there.map(({ cell }) => cell.value + measure.nugget);
      return {
        type: "scatter",
        mode: "markers",
        name: escaped(method.label),
        x: middle,
        y: there.map(({ place }) => place + at(number)),
        text: there.map(({ row, cell }) => `${escaped(data.settings[row])}: ${cell.text} (${cell.range}; ${cell.runs} runs)`),
        hovertemplate: `%{text}<extra>${escaped(method.label)}</extra>`,
        marker: { symbol: method.symbol, size: 9, color: ink(method) },
        error_x: {
          type: "data",
          symmetric: false,
          array: there.map(({ cell }, place) => (cell.high === null ? 0 : cell.high + measure.nugget - middle[place])),
          arrayminus: there.map(({ cell }, place) => middle[place] - (cell.low + measure.nugget || middle[place])),
          color: faint(ink(method), 0.55),
          thickness: 2,
          width: 0,
        },
      };
    });
    const best = rows.flatMap((row, place) => measure.best[row].map((method) => [place + at(method), measure.cells[row][method].value]));
    traces.push({
      type: "scatter",
      mode: "markers",
      name: "best of the row",
      x: best.map(([, value]) => value + measure.nugget),
      y: best.map(([place]) => place),
      hoverinfo: "skip",
      marker: { symbol: "circle-open", size: 17, color: colors.text, line: { width: 1.5 } },
    });
    const width = this.width();
    const names = [...data.methods.map((method) => method.label), "best of the row"];
    const layout = rowLayout(rows.map((row) => data.settings[row]), width, names);
    layout.xaxis.title = { text: measure.words, standoff: 6 };
    logarithmicAxis(layout.xaxis, traces.flatMap((trace) => trace.x));
    layout.showlegend = true;
    this.show(traces, layout);
    if (announce) this.status.textContent = `Shown: ${measure.words} in ${rows.length} ${rows.length === 1 ? "setting" : "settings"}.`;
  }

  download() {
    const { data } = this;
    const lines = ["setting,method,runs,measure,median,lowest,highest,best"];
    for (const measure of data.measures)
      measure.cells.forEach((line, row) =>
        line.forEach((cell, method) => {
          if (cell === null) return;
          const cells = [quoted(data.settings[row]), quoted(data.methods[method].label), cell.runs, measure.name];
          const numbers = [cell.value, cell.low ?? null, cell.high ?? null].map(plain);
          lines.push([...cells, ...numbers, measure.best[row].includes(method) ? "yes" : ""].join(","));
        }),
      );
    save("overview.csv", lines);
  }
}

const PATTERNS = ["", "/", "\\", "x", "-", "|", "+", "."];

// Why searches ended, and what an iteration cost.
class Endings extends View {
  constructor(article) {
    super(article);
    this.data = report.data.endings;
  }

  draw(announce) {
    const chosen = this.form.elements.problem.value;
    const problems = [...new Set(this.data.rows.map((row) => row.problem))];
    const rows = this.data.rows.filter((row) => chosen === "all" || row.problem === problems[chosen]);
    const stops = this.form.elements.measure.value === "0";
    const traces = stops ? this.shares(rows) : this.costs(rows);
    const width = this.width();
    const layout = rowLayout(rows.map((row) => row.label), width, traces.map((trace) => trace.name));
    layout.barmode = "stack";
    layout.showlegend = true;
    layout.legend.traceorder = "normal";
    if (stops) Object.assign(layout.xaxis, { ticksuffix: "%", range: [0, 100] });
    else logarithmicAxis(layout.xaxis, rows.flatMap((row) => [row.fewest, row.most]));
    layout.xaxis.title = { text: stops ? "share of searches" : "evaluations in an iteration", standoff: 6 };
    this.show(traces, layout);
    if (announce) this.status.textContent = `Shown: ${stops ? "why searches ended" : "evaluations in an iteration"}, ${rows.length} rows.`;
  }

  shares(rows) {
    const colors = pageColors();
    return this.data.stops
      .map((stop, number) => ({
        type: "bar",
        orientation: "h",
        name: escaped(stop.label),
        x: rows.map((row) => 100 * row.shares[number]),
        y: rows.map((_, place) => place),
        text: rows.map((row) => `${number_of(row.shares[number])} of ${whole(row.searches)} searches: ${escaped(stop.meaning)}`),
        textposition: "none",
        hovertemplate: "%{text}<extra></extra>",
        marker: {
          color: ink(stop),
          line: { color: colors.page, width: 1 },
          pattern: { shape: PATTERNS[number % PATTERNS.length], fillmode: "overlay", fgcolor: colors.page, fgopacity: 0.7, size: 6 },
        },
      }))
      .filter((trace) => trace.x.some((share) => share > 0));
  }

  costs(rows) {
    const colors = pageColors();
    const [first, second] = [report.data.overview.methods[0], report.data.overview.methods[1] ?? report.data.overview.methods[0]];
    const y = rows.map((_, place) => place);
    return [
      {
        type: "scatter",
        mode: "markers",
        name: "mean, and from the fewest to the most after the first",
        x: rows.map((row) => row.mean),
        y,
        text: rows.map((row) => `${number(row.mean)} on average, ${row.fewest} to ${row.most_later} after the first iteration`),
        hovertemplate: "%{text}<extra></extra>",
        marker: { symbol: "circle", size: 9, color: ink(first) },
        error_x: {
          type: "data",
          symmetric: false,
          array: rows.map((row) => Math.max(row.most_later - row.mean, 0)),
          arrayminus: rows.map((row) => row.mean - row.fewest),
          color: faint(ink(first), 0.6),
          thickness: 2,
          width: 4,
        },
      },
      {
        type: "scatter",
        mode: "markers",
        name: "most of all",
        x: rows.map((row) => row.most),
        y,
        hovertemplate: "%{x} at most<extra></extra>",
        marker: { symbol: "diamond-open", size: 9, color: ink(second), line: { width: 2, color: ink(second) } },
      },
    ];
  }

  download() {
    const stops = this.data.stops.map((stop) => quoted(stop.label));
    const lines = [["setting", "searches", "fewest", "mean", "most", "most_after_first", ...stops].join(",")];
    for (const row of this.data.rows)
      lines.push([quoted(row.label), row.searches, row.fewest, row.mean, row.most, row.most_later, ...row.shares].join(","));
    save("endings.csv", lines);
  }
}

const number_of = (share) => `${number(100 * share)}%`;

// ---- one search

class Search extends View {
  constructor(article) {
    super(article);
    this.data = report.data.searches;
    this.values = {};
    for (const name of ["problem", "method", "batch"]) this.values[name] = [...new Set(this.data.map((run) => run[name]))];
    for (const button of this.form.querySelectorAll("[data-move]"))
      button.addEventListener("click", () => this.move(Number(button.dataset.move)));
    this.count();
  }

  run() {
    const { elements } = this.form;
    return this.data.find((run) => ["problem", "method", "batch"].every((name) => run[name] === this.values[name][elements[name].value]));
  }

  // As many searches to choose from as the run has.
  count() {
    const select = this.form.elements.number;
    const [searches, before] = [this.run()?.searches ?? [], Number(select.value)];
    select.replaceChildren(...searches.map((_, place) => new Option(String(place + 1), String(place))));
    if (searches.length) select.value = String(Math.min(before, searches.length - 1));
  }

  changed(field) {
    if (field.name !== "number") this.count();
  }

  restored(name) {
    if (name !== "number") this.count();
  }

  move(by) {
    const select = this.form.elements.number;
    const next = Number(select.value) + by;
    if (next < 0 || next >= select.options.length) return;
    select.value = String(next);
    this.zoom = null;
    this.draw(true);
    remember(this.id);
  }

  draw(announce) {
    const run = this.run();
    const search = run?.searches[Number(this.form.elements.number.value)];
    const layout = baseLayout(this.width(), 400);
    const colors = pageColors();
    layout.margin.b = 84;
    const axis = { gridcolor: colors.line, linecolor: colors.line, rangemode: "tozero" };
    layout.xaxis = { ...axis, zeroline: false, title: { text: "step α", standoff: 6 } };
    layout.yaxis = { ...axis, zeroline: true, zerolinecolor: colors.text, title: { text: "slope along the direction", standoff: 4 } };
    layout.showlegend = true;
    this.show(search ? this.traces(search, layout) : [], layout);
    this.list(search);
    if (announce)
      this.status.textContent = search
        ? `Seed ${run.seed}: step ${number(search.step)} after ${search.count} ${search.count === 1 ? "probe" : "probes"}; ${search.stop}.`
        : "There is no such run here: choose another problem, method or batch size.";
  }

  traces(search, layout) {
    const steps = search.probes.map(([step]) => step);
    const moved = steps.filter((step) => step > 0);
    const [least, most] = [Math.min(...moved), Math.max(...moved)];
    const logarithmic = moved.length > 1 && most > 10 * least;
    // On a logarithmic axis the start has a place of its own, left of all steps.
    const start = logarithmic ? least / (most / least) ** 0.12 : 0;
    if (logarithmic) {
      const powers = Array.from({ length: 80 }, (_, place) => place - 40).filter((power) => 10 ** power >= least / 1.01 && 10 ** power <= most * 1.01);
      const ticks = powers.filter((_, place) => place % Math.ceil(powers.length / 6) === 0);
      layout.xaxis.type = "log";
      layout.xaxis.tickvals = [start, ...ticks.map((power) => 10 ** power)];
      layout.xaxis.ticktext = ["0", ...ticks.map((power) => (Math.abs(power) < 3 ? String(Number((10 ** power).toPrecision(1))) : `10<sup>${power}</sup>`))];
    }
    const slopes = search.probes.map(([, slope]) => Number(slope));
    const sizes = slopes.filter(Number.isFinite).map(Math.abs).sort((a, b) => a - b);
    const edge = Math.max(20 * (sizes[Math.floor(sizes.length / 2)] || 1), Math.abs(slopes[0]) * 1.2);
    const points = search.probes.map(([step, slope, value], place) => ({
      place,
      x: step > 0 ? step : start,
      y: Number.isFinite(Number(slope)) ? Math.max(-edge, Math.min(edge, slope)) : edge,
      text: `${place ? `probe ${place}` : "start"}: step ${number(step)}, slope ${typeof slope === "string" ? slope : number(slope)}${value === null ? "" : `, value ${typeof value === "string" ? value : number(value)}`}`,
      downhill: Number(slope) < 0,
    }));
    const [blue, orange] = [report.data.palette[0], report.data.palette[1]];
    const colors = pageColors();
    const marks = (name, chosen, marker, numbered) => ({
      type: "scatter",
      mode: numbered ? "markers+text" : "markers",
      name,
      x: chosen.map((point) => point.x),
      y: chosen.map((point) => point.y),
      text: chosen.map((point) => String(point.place)),
      textposition: "top center",
      customdata: chosen.map((point) => point.text),
      hovertemplate: "%{customdata}<extra></extra>",
      marker,
    });
    const probes = points.slice(1);
    const traces = [
      { type: "scatter", mode: "lines", x: points.map((point) => point.x), y: points.map((point) => point.y), line: { color: colors.quiet, width: 1, dash: "dot" }, hoverinfo: "skip", showlegend: false },
      marks("start", points.slice(0, 1), { symbol: "square", size: 10, color: colors.text }),
      marks("downhill", probes.filter((point) => point.downhill), { symbol: "triangle-down", size: 11, color: ink(blue) }, true),
      marks("uphill", probes.filter((point) => !point.downhill), { symbol: "triangle-up", size: 11, color: ink(orange) }, true),
    ];
    if (search.accepted !== null && points[search.accepted])
      traces.push({ ...marks("accepted", [points[search.accepted]], { symbol: "circle-open", size: 22, color: colors.text, line: { width: 2 } }), hoverinfo: "skip", hovertemplate: undefined });
    return traces.filter((trace) => trace.x.length);
  }

  // The same as a table.
  list(search) {
    const table = this.article.querySelector(".probes");
    const cell = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
    const row = (tag, texts) => {
      const made = document.createElement("tr");
      made.append(...texts.map((text) => cell(tag, text)));
      return made;
    };
    const valued = search?.probes.some(([, , value]) => value !== null);
    const said = (value) => (value === null ? "" : typeof value === "string" ? value : number(value));
    table.replaceChildren();
    if (!search) return;
    table.createTHead().append(row("th", ["Probe", "Step", "Slope", ...(valued ? ["Value"] : []), ""]));
    table.createTBody().append(
      ...search.probes.map(([step, slope, value], place) =>
        row("td", [place ? String(place) : "start", said(step), said(slope), ...(valued ? [said(value)] : []), place === search.accepted ? "accepted" : ""]),
      ),
    );
  }
}

// ---- tables that can be sorted

function setUpSorting(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "sort", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      sortTable(table, column, head.getAttribute("aria-sort") === "ascending");
      remember(table.id);
    });
  });
}

function sortTable(table, column, down) {
  const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.replace(/[,×%]/g, "");
  const compare = (one, other) => {
    const [a, b] = [Number(value(one)), Number(value(other))];
    if (Number.isNaN(a) || Number.isNaN(b)) return value(one).localeCompare(value(other), "en", { numeric: true });
    return a === b ? 0 : a - b;
  };
  const rows = [...table.tBodies[0].rows];
  rows.sort((one, other) => (down ? -1 : 1) * compare(one, other));
  table.tBodies[0].append(...rows);
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    if (place === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  table.dataset.sorted = `${column}.${down ? "down" : "up"}`;
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
    remember("theme");
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

const KINDS = { chart: Curves, heat: Heat, overview: Overview, endings: Endings, search: Search };

async function start() {
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old to unpack them");
  const [data, numbers] = await Promise.all([unpacked("data").json(), loadNumbers(), loadPlotly()]);
  addressRuns(data);
  Object.assign(report, { data, numbers });
  const byPlace = new Map();
  for (const table of document.querySelectorAll("table.sortable")) setUpSorting(table);
  for (const article of document.querySelectorAll("article:has(.chart)")) {
    const kind = Object.keys(KINDS).find((name) => name in article.dataset);
    const chart = new KINDS[kind](article);
    chart.initial = JSON.stringify(fieldsOf(chart.form));
    report.charts.push(chart);
    byPlace.set(chart.place, chart);
  }
  restore();
  setUpTheme();
  addEventListener("hashchange", restore);
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
