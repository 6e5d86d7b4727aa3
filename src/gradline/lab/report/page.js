"use strict";
// The report's charts. The page holds Plotly, the runs' description and their numbers, packed (gzip, base64);
// they are unpacked once, and each chart is drawn when it comes into sight, or before the page is printed.

const report = { data: null, numbers: null, charts: [], printing: false };
const PRINTED = 640; // pixels that a printed page is wide
const NARROW = 620; // pixels below which the names of rows are above them

// ---- unpacking

function unpacked(id, type = "") {
  const text = document.getElementById(id).textContent;
  const bytes = Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
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
  data.total = 0;
  for (const run of data.runs) {
    run.begin = data.total;
    data.total += run.points;
  }
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
  const made = { middle: [], low: [], high: [], count: [] };
  const into = logarithmic ? Math.log10 : (value) => value;
  const back = logarithmic ? (value) => 10 ** value : (value) => value;
  for (let place = 0; place < rows[0].length; place++) {
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
const plural = (count, word, words = `${word}s`) => `${count.toLocaleString("en")} ${count === 1 ? word : words}`;

// A number in few digits; words, as for NaN, are as they are.
function number(value) {
  if (value === null || Number.isNaN(value)) return "none";
  if (value === 0 || typeof value === "string") return String(value);
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(3))) : value.toExponential(2);
}

// ---- the view in the address

const fieldsOf = (form) => String(new URLSearchParams(new FormData(form)));

function setFields(form, given) {
  for (const field of form.elements)
    if (field.type === "checkbox") field.checked = given.getAll(field.name).includes(field.value);
    else if ([...(field.options ?? [])].some((option) => option.value === given.get(field.name))) field.value = given.get(field.name);
}

// The address says what is shown, where that is not what a page shows at first.
function remember(id) {
  const view = new URLSearchParams({ at: id });
  for (const chart of report.charts) {
    if (fieldsOf(chart.form) !== chart.initial)
      for (const [name, value] of new FormData(chart.form)) view.append(`${chart.id}.${name}`, value);
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
    const own = [...view].filter(([name]) => name.startsWith(`${chart.id}.`));
    const given = new URLSearchParams(own.map(([name, value]) => [name.slice(chart.id.length + 1), value]));
    const zoom = (given.get("zoom") ?? "").split(",").map(Number);
    chart.zoom = zoom.length === 4 && zoom.every(Number.isFinite) ? zoom : null;
    given.delete("zoom");
    if (given.size) {
      setFields(chart.form, given);
      chart.prepare();
      setFields(chart.form, given); // some fields have other options now
    }
    if (chart.drawn) chart.draw();
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const [column, order] = (view.get(`${table.id}.sort`) ?? "").split(".");
    if (table.tHead.rows[0].cells[Number(column)] && order) sortTable(table, Number(column), order === "down");
  }
  document.getElementById(view.get("at"))?.scrollIntoView({ behavior: "instant" });
}

// ---- what all charts have

function isDark() {
  if (report.printing) return false;
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// A colour of the style sheet, light-dark(#light, #dark).
function color(name) {
  const value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
  return value.match(/#\w+/g)[Number(isDark())];
}

const ink = (line) => (isDark() ? line.dark : line.light);

function faint(ink, opacity) {
  const [red, green, blue] = [1, 3, 5].map((place) => parseInt(ink.slice(place, place + 2), 16));
  return `rgba(${red},${green},${blue},${opacity})`;
}

function baseLayout(width, height) {
  return {
    width,
    height,
    autosize: false,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: color("text"), size: 13, family: "system-ui, sans-serif" },
    margin: { l: 68, r: 12, t: 56, b: 46 }, // the buttons are above all titles
    modebar: { bgcolor: "rgba(0,0,0,0)", color: color("quiet"), activecolor: color("text") },
    hoverlabel: { bgcolor: color("page"), bordercolor: color("text"), font: { color: color("text") } },
    legend: { orientation: "h", x: 0, xanchor: "left", y: 0, yref: "container", yanchor: "bottom", traceorder: "normal" },
    showlegend: true,
    barmode: "stack",
    dragmode: "zoom",
    hovermode: "closest",
  };
}

const baseAxis = () => ({ gridcolor: color("line"), linecolor: color("line"), zeroline: false });

// How many rows a legend takes, about: it is as wide as the panels above it.
function legendRows(labels, room) {
  const longest = Math.max(0, ...labels.map((label) => 54 + 6.6 * label.length));
  return Math.ceil(labels.length / Math.max(1, Math.floor(room / longest)));
}

// A logarithmic axis: within 1e-16 and 1e16, as a few steps of 1e-140 would hide all others.
const LOGARITHMIC = { type: "log", exponentformat: "power", nticks: 5, autorangeoptions: { clipmin: 1e-16, clipmax: 1e16 } };

class View {
  constructor(article) {
    this.id = article.id;
    this.data = report.data[article.id] ?? report.data.charts[article.id];
    this.article = article;
    this.form = article.querySelector("form");
    this.place = article.querySelector(".chart");
    this.zoom = null; // from and to, of x and of y
    // Only these buttons: others of Plotly's would send a chart to a server, and its reset knows the first measure only.
    const reset = { name: "reset", title: "Reset zoom", icon: Plotly.Icons.home, click: () => this.again() };
    const modeBarButtons = [["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", reset], ["toImage"]];
    const nowhere = { showSendToCloud: false, plotlyServerURL: "" };
    this.config = { modeBarButtons, displayModeBar: true, displaylogo: false, doubleClick: false, ...nowhere };
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", (event) => {
      this.changed(event.target);
      this.again();
    });
    this.prepare();
  }

  // Bring what depends on the form in step with it.
  prepare() {}

  changed() {
    this.prepare();
  }

  again() {
    this.zoom = null;
    this.draw();
    remember(this.id);
  }

  width() {
    return report.printing ? PRINTED : this.place.clientWidth;
  }

  show(traces, layout, status) {
    if (this.zoom) [layout.xaxis.range, layout.yaxis.range] = [this.zoom.slice(0, 2), this.zoom.slice(2)];
    Plotly.react(this.place, traces, layout, this.config);
    this.article.querySelector(".status").textContent = status;
    if (this.drawn) return;
    this.drawn = true;
    this.place.on("plotly_relayout", (event) => this.zoomed(event));
    this.place.on("plotly_doubleclick", () => this.again());
    this.place.on("plotly_legendclick", (event) => this.pick(event));
  }

  zoomed(event) {
    if (!Object.keys(event).some((name) => /^[xy]axis\d*\.range/.test(name))) return;
    const { xaxis, yaxis } = this.place.layout;
    this.zoom = [...xaxis.range, ...yaxis.range].map(Number);
    remember(this.id);
  }

  // A click in the legend is one on a check box, where there are any; a second one at once shows a line alone, or all.
  pick(event) {
    const boxes = [...this.form.querySelectorAll("input[name=line]")];
    const chosen = boxes.find((box) => box.value === String(event.data[event.curveNumber].meta));
    if (!chosen) return boxes.length === 0;
    const others = boxes.some((box) => box !== chosen && box.checked);
    if (event.event.detail === 2) for (const box of boxes) box.checked = box === chosen || !others;
    else chosen.checked = !chosen.checked;
    this.draw();
    remember(this.id);
    return false;
  }
}

// ---- a chart of curves

// A line that is not chosen stays in the legend, so that a click there brings it back.
function runTraces(rows, line, axis, shared) {
  return rows.map(({ run, x, truth, y }, place) => ({
    ...shared,
    x: Array.from(x),
    y: Array.from(y, (value) => (Number.isNaN(value) ? null : value)),
    text: Array.from(truth, number),
    line: { ...shared.line, width: 1 },
    marker: { ...shared.marker, size: 5, maxdisplayed: 3 },
    opacity: 0.7,
    showlegend: shared.showlegend && place === 0,
    hovertemplate: `%{text} at %{x:,} ${axis}<extra>${shared.name}, seed ${run.seed}</extra>`,
  }));
}

function meanTraces(rows, line, axis, shared, logarithmic) {
  let x = rows[0].x;
  let lines = rows.map((row) => row.y);
  if (axis === "iterations") {
    // As far as all runs go, on a grid that all share.
    const last = Math.min(...rows.map((row) => row.x[row.x.length - 1]));
    x = Float64Array.from({ length: 301 }, (_, place) => Math.round((place * last) / 300));
    lines = rows.map((row) => held(row.x, row.y, x));
  }
  const { middle, low, high, count } = band(lines, logarithmic);
  shared = { ...shared, x: Array.from(x) };
  const edge = { ...shared, mode: "lines", line: { ...shared.line, width: 0 }, hoverinfo: "skip", showlegend: false };
  const around = (place) => `(${number(low[place])} to ${number(high[place])}; ${count[place]} of ${rows.length} runs)`;
  return [
    { ...edge, y: low },
    { ...edge, y: high, fill: "tonexty", fillcolor: faint(ink(line), 0.18) },
    {
      ...shared,
      y: middle,
      text: middle.map((value, place) => `${number(value)} ${around(place)}`),
      line: { ...shared.line, width: 2 },
      marker: { ...shared.marker, size: 7, maxdisplayed: 6 },
      hovertemplate: `%{text} at %{x:,} ${axis}<extra>${shared.name}</extra>`,
    },
  ];
}

class Curves extends View {
  constructor(article) {
    super(article);
    this.follow();
    this.form.querySelector(".download").addEventListener("click", () => this.download());
  }

  changed(field) {
    if (field.name === "measure") this.follow();
  }

  chosen() {
    const { facet, measure, panel, look, scale, axis } = Object.fromEntries(new FormData(this.form));
    const places = (names, name) => names.map((_, place) => place).filter((place) => name === "all" || names[place] === name);
    return {
      measure: this.data.measures.find((one) => one.words === measure),
      facets: places(this.data.facets, facet),
      panels: places(this.data.panels, panel),
      means: look !== "all runs",
      logarithmic: scale === "log",
      axis,
      lines: new FormData(this.form).getAll("line").map(Number),
      words: [this.data.facets.length > 1 ? facet : "", measure, panel === "all" ? "" : panel, look, `${scale} scale`],
    };
  }

  // A measure comes with its scale and its axis, as the paper shows it; both can be changed after.
  follow() {
    const { measure } = this.chosen();
    this.form.elements.scale.value = measure.logarithmic ? "log" : "linear";
    this.form.elements.axis.value = measure.against;
  }

  draw() {
    const { data } = this;
    const chosen = this.chosen();
    const { measure, facets, logarithmic, axis } = chosen;
    const some = (facet, panel) => data.runs.filter(([, f, p]) => f === facet && p === panel);
    const panels = facets.flatMap((facet) =>
      chosen.panels.filter((panel) => facets.length === 1 || some(facet, panel).length).map((panel) => ({
        runs: some(facet, panel),
        name: [facets.length > 1 && data.facets[facet], data.panels.length > 1 && data.panels[panel]].filter(Boolean).join(", "),
      })),
    );
    const traces = [];
    const named = new Set();
    let count = 0;
    panels.forEach((panel, place) => {
      const suffix = place ? String(place + 1) : "";
      data.lines.forEach((line, number) => {
        const runs = panel.runs.filter(([, , , one]) => one === number).map(([run]) => report.data.runs[run]);
        const visible = chosen.lines.includes(number) || "legendonly";
        // Runs of different budgets have grids of their own, and no mean.
        for (const budget of new Set(runs.map((run) => run.budget))) {
          const rows = runs.filter((run) => run.budget === budget).map((run) => {
            const truth = column(run, measure.name);
            return { run, truth, x: column(run, axis), y: shown(truth, measure, logarithmic) };
          });
          const shared = {
            type: "scatter",
            mode: "lines+markers",
            line: { color: ink(line), dash: line.dash, shape: "hv" },
            marker: { symbol: line.symbol, color: ink(line) },
            name: escaped(line.label),
            legendgroup: line.label,
            showlegend: !named.has(number),
            meta: number,
            visible,
            xaxis: `x${suffix}`,
            yaxis: `y${suffix}`,
          };
          traces.push(...(chosen.means ? meanTraces : runTraces)(rows, line, axis, shared, logarithmic));
          named.add(number);
          if (visible === true) count += rows.length;
        }
      });
    });
    const words = `Shown: ${chosen.words.filter(Boolean).join(", ")}, against ${axis}; ${plural(count, "run")}.`;
    this.show(traces, this.layout(panels, chosen), count ? words : "Nothing is chosen, so nothing is shown.");
  }

  // Panels side by side where there is room, with one vertical axis for all.
  layout(panels, { measure, logarithmic, axis }) {
    const width = this.width();
    const columns = Math.min(panels.length, width < 480 ? 1 : width < 860 ? 2 : panels.length === 3 ? 3 : 4);
    const rows = Math.ceil(panels.length / columns);
    const each = panels.length === 1 ? 380 : 250;
    const legend = legendRows(this.data.lines.map((line) => line.label), width - 80);
    const layout = baseLayout(width, rows * each + 84 + 24 * legend);
    layout.margin.b = 58 + 24 * legend;
    layout.annotations = [];
    layout.grid = { rows, columns, pattern: "independent", xgap: 0.12, ygap: 70 / each };
    const vertical = { ...baseAxis(), nticks: 7, ...(logarithmic ? LOGARITHMIC : { type: "linear", exponentformat: "power" }) };
    panels.forEach(({ name }, place) => {
      const suffix = place ? String(place + 1) : "";
      const column = place % columns;
      layout[`xaxis${suffix}`] = {
        ...baseAxis(),
        title: { text: place + columns >= panels.length ? axis : "", standoff: 6 },
        matches: place ? "x" : undefined,
        nticks: 5,
        rangemode: "tozero",
      };
      layout[`yaxis${suffix}`] = {
        ...vertical,
        showticklabels: column === 0,
        title: { text: column === 0 ? escaped(measure.words) : "", standoff: 4 },
        matches: place ? "y" : undefined,
      };
      const corner = { x: 0, xref: `x${suffix} domain`, xanchor: "left", y: 1, yref: `y${suffix} domain`, yanchor: "bottom", showarrow: false };
      if (name) layout.annotations.push({ ...corner, text: `<b>${escaped(name)}</b>` });
    });
    return layout;
  }

  download() {
    const { fields } = report.data;
    const names = ["problem", "method", "batch_size", "seed", "sampling", "direction_batch_size"];
    const rows = this.data.runs.flatMap(([place]) => {
      const run = report.data.runs[place];
      const [settings, columns] = [names.map((name) => run[name]), fields.map((field) => column(run, field))];
      const cells = (point) => columns.map((values) => Number(values[point].toPrecision(4)));
      return Array.from({ length: run.points }, (_, point) => [...settings, ...cells(point)]);
    });
    save(this.id, [[...names, ...fields], ...rows]);
  }
}

// ---- charts with a row for each setting

const PATTERNS = ["", "/", "\\", "x", "-", "|", "+", "."];

// Rows from above. Their names are at the left, or above them where the page is narrow; the legend is below them.
function rowLayout(names, width, traces, title) {
  const narrow = width < NARROW;
  const left = narrow ? 12 : 16 + 7 * Math.max(...names.map((name) => name.length));
  const legend = legendRows(traces.filter((trace) => trace.showlegend !== false).map((trace) => trace.name), width - left - 12);
  const layout = baseLayout(width, 132 + 24 * legend + names.length * (narrow ? 48 : 24));
  Object.assign(layout.margin, { l: left, b: 58 + 24 * legend });
  layout.bargap = narrow ? 0.55 : 0.2;
  layout.xaxis = { ...baseAxis(), type: "linear", nticks: 6, title: { text: escaped(title), standoff: 6 } };
  const ticks = { tickvals: names.map((_, place) => place), ticktext: names.map(escaped), showticklabels: !narrow };
  layout.yaxis = { ...baseAxis(), ...ticks, range: [names.length - 0.4, -0.8] };
  const above = (text, place) => ({ text, x: 0, xref: "paper", xanchor: "left", y: place - 0.46, showarrow: false, font: { size: 12 } });
  if (narrow) layout.annotations = layout.yaxis.ticktext.map(above);
  return layout;
}

// Bars that are parts of a whole, each with a pattern: values of each part, row by row.
function stackedBars(parts, values, texts) {
  const bars = parts.map((part, number) => ({
    type: "bar",
    orientation: "h",
    name: escaped(part.label),
    x: values[number],
    y: values[number].map((_, place) => place),
    text: texts[number].map(escaped),
    textposition: "none",
    hovertemplate: "%{text}<extra></extra>",
    marker: {
      color: ink(part),
      line: { color: color("page"), width: 1 },
      pattern: { shape: PATTERNS[number % PATTERNS.length], fillmode: "overlay", fgcolor: color("page"), fgopacity: 0.7, size: 6 },
    },
  }));
  return bars.filter((bar) => bar.x.some((value) => value > 0));
}

// A mark for each point, with a line from its low to its high end.
function marks(name, points, marker) {
  const line = (end, sign) => points.map((point) => Math.max(sign * ((point[end] ?? point.x) - point.x), 0));
  const ends = { type: "data", symmetric: false, array: line("high", 1), arrayminus: line("low", -1) };
  return {
    type: "scatter",
    mode: "markers",
    name: escaped(name),
    x: points.map((point) => point.x),
    y: points.map((point) => point.y),
    text: points.map((point) => escaped(point.text)),
    hovertemplate: `%{text}<extra>${escaped(name)}</extra>`,
    marker: { size: 9, ...marker },
    cliponaxis: false,
    error_x: { ...ends, color: faint(marker.color, 0.55), thickness: 2, width: 0 },
  };
}

function ring(name, points, size) {
  const marker = { symbol: "circle-open", size, color: color("text"), line: { width: 1.5 } };
  return { ...marks(name, points.map(({ x, y }) => ({ x, y })), marker), hoverinfo: "skip", hovertemplate: undefined };
}

// Which method is best how often; of one problem, the best of each row, and all others.
class Overview extends View {
  constructor(article) {
    super(article);
    article.querySelector("details").open = false; // without scripts it is the summary
  }

  prepare() {
    const { measure, problem } = this.form.elements;
    this.measure = this.data.measures.find((one) => one.words === measure.value);
    this.problem = problem.value;
    for (const table of this.article.querySelectorAll(".matrix")) table.hidden = table.dataset.measure !== measure.value;
    for (const row of this.article.querySelectorAll("tbody tr")) row.hidden = ![row.dataset.problem, "all"].includes(this.problem);
  }

  draw() {
    if (this.problem === "all") this.drawAll();
    else this.drawOne();
  }

  drawAll() {
    const { data, measure } = this;
    const problems = [...new Set(data.problems)];
    const won = data.methods.map(() => problems.map(() => 0));
    const of = problems.map(() => 0);
    measure.best.forEach((best, row) => {
      const place = problems.indexOf(data.problems[row]);
      of[place] += best.length > 0;
      for (const method of best) won[method][place] += 1 / best.length;
    });
    const text = (value, place) => `${number(value)} of ${plural(of[place], "setting")} of ${problems[place]}`;
    const texts = won.map((values, method) => values.map((...one) => `${data.methods[method].label}: best in ${text(...one)}`));
    const traces = stackedBars(data.methods, won, texts);
    const winners = problems.map((_, place) => {
      const most = Math.max(...won.map((values) => values[place]));
      const best = data.methods.filter((_, method) => won[method][place] === most).map((method) => method.label);
      return most ? ` ★ ${best.length > 2 ? `${best.length} methods` : best.join(", ")}` : " one method only";
    });
    traces.push({
      type: "scatter",
      mode: "text",
      name: "best most often",
      x: of,
      y: of.map((_, place) => place),
      text: winners.map(escaped),
      textposition: "middle right",
      hoverinfo: "skip",
      showlegend: false,
    });
    const layout = rowLayout(problems, this.width(), traces, "settings where a method is best");
    layout.xaxis.range = [0, Math.max(...of) * (this.width() < NARROW ? 1.9 : 1.35) || 1];
    layout.yaxis.showgrid = false; // lines would go through the names at the right
    this.show(traces, layout, `Shown: in how many settings a method has the lowest ${measure.words}; ★ has it most often.`);
  }

  drawOne() {
    const { data, measure } = this;
    const rows = data.settings.map((_, row) => row).filter((row) => data.problems[row] === this.problem);
    const spread = this.width() < NARROW ? 0.2 : 0.36;
    const at = (place, method) => place + (data.methods.length > 1 ? spread * (method / (data.methods.length - 1) - 0.5) : 0);
    const added = (value) => (value === null ? null : value + measure.nugget);
    const point = (row, place, method) => {
      const cell = measure.cells[row][method];
      if (!cell || cell.value === null) return [];
      const text = `${data.settings[row]}: ${cell.text} (${cell.range}; ${plural(cell.runs, "run")})`;
      return [{ x: added(cell.value), low: added(cell.low), high: added(cell.high), y: at(place, method), text }];
    };
    const traces = data.methods.map((method, number) =>
      marks(method.label, rows.flatMap((row, place) => point(row, place, number)), { symbol: method.symbol, color: ink(method) }),
    );
    const best = rows.flatMap((row, place) => measure.best[row].flatMap((method) => point(row, place, method)));
    const drawn = [...traces.filter((trace) => trace.x.length), ring("best of the row", best, 17)];
    const layout = rowLayout(rows.map((row) => data.short[row]), this.width(), drawn, measure.words);
    Object.assign(layout.xaxis, LOGARITHMIC);
    this.show(drawn, layout, `Shown: ${measure.words} in ${plural(rows.length, "setting")} of ${this.problem}.`);
  }
}

// Why searches ended, and what an iteration cost.
class Endings extends View {
  draw() {
    const { problem, measure } = this.form.elements;
    const rows = this.data.rows.filter((row) => row.problem === problem.value);
    const stops = measure.value === "why searches ended";
    const traces = stops ? this.shares(rows) : this.costs(rows);
    const layout = rowLayout(rows.map((row) => row.label), this.width(), traces, stops ? "share of searches" : measure.value);
    Object.assign(layout.xaxis, stops ? { ticksuffix: "%", range: [0, 100] } : LOGARITHMIC);
    this.show(traces, layout, `Shown: ${measure.value}, ${plural(rows.length, "row")}.`);
  }

  shares(rows) {
    const values = this.data.stops.map((_, stop) => rows.map((row) => 100 * row.shares[stop]));
    const text = (row, stop) => `${number(100 * row.shares[stop])}% of ${plural(row.searches, "search", "searches")}`;
    const texts = this.data.stops.map(({ meaning }, stop) => rows.map((row) => `${text(row, stop)}: ${meaning}`));
    return stackedBars(this.data.stops, values, texts);
  }

  costs(rows) {
    const [first, second] = report.data.palette;
    const means = rows.map((row, y) => {
      const text = `${number(row.mean)} on average, ${row.fewest} to ${row.most_later} after the first iteration`;
      return { x: row.mean, low: row.fewest, high: row.most_later, y, text };
    });
    const most = rows.map((row, y) => ({ x: row.most, y, text: `${row.most} at most` }));
    return [
      marks("mean, and range after the first", means, { symbol: "circle", color: ink(first) }),
      marks("most of all", most, { symbol: "diamond-open", color: ink(second), line: { width: 2 } }),
    ];
  }
}

// ---- one search

class Search extends View {
  constructor(article) {
    super(article);
    for (const button of this.form.querySelectorAll("[data-move]"))
      button.addEventListener("click", () => this.move(Number(button.dataset.move)));
  }

  // As many searches to choose from as the run has.
  prepare() {
    const { elements } = this.form;
    this.run = this.data.find((run) => ["problem", "method", "batch"].every((name) => run[name] === elements[name].value));
    const [searches, before] = [this.run?.searches ?? [], elements.number.selectedIndex];
    elements.number.replaceChildren(...searches.map((_, place) => new Option(String(place + 1))));
    if (searches.length) elements.number.selectedIndex = Math.min(Math.max(before, 0), searches.length - 1);
  }

  move(by) {
    const select = this.form.elements.number;
    if (!select.options[select.selectedIndex + by]) return;
    select.selectedIndex += by;
    this.again();
  }

  draw() {
    const search = this.run?.searches[this.form.elements.number.selectedIndex];
    const layout = baseLayout(this.width(), 400);
    layout.margin.b = 84;
    const axis = { ...baseAxis(), rangemode: "tozero" };
    layout.xaxis = { ...axis, title: { text: "step α", standoff: 6 } };
    const zero = { zeroline: true, zerolinecolor: color("text") };
    layout.yaxis = { ...axis, ...zero, title: { text: "slope along the direction", standoff: 4 } };
    const none = "There is no such run here: choose another problem, method or batch size.";
    const end = search && `step ${number(search.step)} after ${plural(search.count, "probe")}; ${search.stop}`;
    this.show(search ? this.traces(search, layout) : [], layout, search ? `Seed ${this.run.seed}: ${end}.` : none);
    this.list(search);
  }

  traces(search, layout) {
    const moved = search.probes.map(([step]) => step).filter((step) => step > 0);
    const [least, most] = [Math.min(...moved), Math.max(...moved)];
    // On a logarithmic axis the start has a place of its own, left of all steps.
    const logarithmic = moved.length > 1 && most > 10 * least;
    const start = logarithmic ? least / (most / least) ** 0.12 : 0;
    if (logarithmic) {
      const [from, to] = [Math.ceil(Math.log10(least / 1.01)), Math.floor(Math.log10(most * 1.01))];
      const every = Math.ceil((to - from + 1) / 6);
      const powers = Array.from({ length: Math.ceil((to - from + 1) / every) }, (_, place) => from + every * place);
      const named = (power) => (Math.abs(power) < 3 ? number(10 ** power) : `10<sup>${power}</sup>`);
      const tickvals = [start, ...powers.map((power) => 10 ** power)];
      Object.assign(layout.xaxis, { type: "log", tickvals, ticktext: ["0", ...powers.map(named)] });
    }
    const slopes = search.probes.map(([, slope]) => Number(slope));
    const sizes = slopes.filter(Number.isFinite).map(Math.abs).sort((a, b) => a - b);
    const edge = Math.max(20 * (sizes[Math.floor(sizes.length / 2)] || 1), Math.abs(slopes[0]) * 1.2);
    const seen = (slope, value) => `slope ${number(slope)}${value === null ? "" : `, value ${number(value)}`}`;
    const points = search.probes.map(([step, slope, value], place) => ({
      place,
      x: step > 0 ? step : start,
      y: Number.isFinite(slopes[place]) ? Math.max(-edge, Math.min(edge, slope)) : edge,
      text: `${place ? `probe ${place}` : "start"}: step ${number(step)}, ${seen(slope, value)}`,
      downhill: slopes[place] < 0,
    }));
    const numbered = (name, some, marker) => ({
      ...marks(name, some, { size: 11, ...marker }),
      mode: "markers+text",
      text: some.map(({ place }) => (place ? String(place) : "")),
      textposition: "top center",
      customdata: some.map(({ text }) => text),
      hovertemplate: "%{customdata}<extra></extra>",
    });
    const [blue, orange] = report.data.palette;
    const [x, y] = [points.map((point) => point.x), points.map((point) => point.y)];
    const line = { color: color("quiet"), width: 1, dash: "dot" };
    const accepted = points.slice(search.accepted ?? Infinity, (search.accepted ?? 0) + 1);
    return [
      { type: "scatter", mode: "lines", x, y, line, hoverinfo: "skip", showlegend: false },
      numbered("start", points.slice(0, 1), { symbol: "square", color: color("text") }),
      numbered("downhill", points.slice(1).filter((point) => point.downhill), { symbol: "triangle-down", color: ink(blue) }),
      numbered("uphill", points.slice(1).filter((point) => !point.downhill), { symbol: "triangle-up", color: ink(orange) }),
      ring("accepted", accepted, 22),
    ].filter((trace) => trace.x.length);
  }

  // The same as a table.
  list(search) {
    const row = (tag, texts) => `<tr>${texts.map((text) => `<${tag}>${escaped(text)}</${tag}>`).join("")}</tr>`;
    const valued = search?.probes.some(([, , value]) => value !== null);
    const head = row("th", ["Probe", "Step", "Slope", ...(valued ? ["Value"] : []), ""]);
    const body = search?.probes.map((probe, place) => {
      const numbers = probe.slice(0, valued ? 3 : 2).map(number);
      return row("td", [place || "start", ...numbers, place === search.accepted ? "accepted" : ""]);
    }).join("");
    this.article.querySelector(".probes").innerHTML = search ? `<thead>${head}</thead><tbody>${body}</tbody>` : "";
  }
}

// ---- tables that can be sorted

function setUpSorting(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "sort", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      sortTable(table, column, head.ariaSort === "ascending");
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
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort((one, other) => (down ? -1 : 1) * compare(one, other)));
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    head.ariaSort = place !== column ? null : down ? "descending" : "ascending";
  });
  table.dataset.sorted = `${column}.${down ? "down" : "up"}`;
}

// ---- downloads

// A cell of CSV; one that a spreadsheet would take for a formula is kept from it.
function quoted(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const text = typeof value === "string" && /^[=+\-@\t]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

function save(name, rows) {
  const lines = rows.map((row) => `${row.map(quoted).join(",")}\r\n`);
  const address = URL.createObjectURL(new Blob(lines, { type: "text/csv" }));
  Object.assign(document.createElement("a"), { href: address, download: `${name}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// ---- the page

function redrawAll() {
  for (const chart of report.charts) if (chart.drawn) chart.draw();
}

function setUpTheme() {
  const button = document.getElementById("theme");
  const changed = () => {
    button.textContent = isDark() ? "Light colours" : "Dark colours";
    redrawAll();
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    changed();
    remember("theme");
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  changed();
}

function setUpPrinting() {
  addEventListener("beforeprint", () => {
    report.printing = true;
    for (const chart of report.charts) chart.draw();
  });
  addEventListener("afterprint", () => {
    report.printing = false;
    redrawAll();
  });
}

function setUpWidth() {
  let [width, waiting] = [innerWidth, 0];
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => report.printing || redrawAll(), 150);
  });
}

const KINDS = { overview: Overview, endings: Endings, search: Search };

async function start() {
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old to unpack them");
  const [data, numbers] = await Promise.all([unpacked("data").json(), loadNumbers(), loadPlotly()]);
  addressRuns(data);
  Object.assign(report, { data, numbers });
  for (const table of document.querySelectorAll("table.sortable")) setUpSorting(table);
  const watch = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries)
        if (isIntersecting) {
          const chart = report.charts.find((one) => one.place === target);
          if (!chart.drawn) chart.draw();
          watch.unobserve(target);
        }
    },
    { rootMargin: "400px" },
  );
  for (const article of document.querySelectorAll("article:has(.chart)")) {
    const chart = new (KINDS[article.id] ?? Curves)(article);
    chart.initial = fieldsOf(chart.form);
    report.charts.push(chart);
  }
  restore();
  setUpTheme();
  addEventListener("hashchange", restore);
  const { columns, data: rows } = data.results;
  document.getElementById("save-runs").addEventListener("click", () => save("runs", [columns, ...rows]));
  for (const chart of report.charts) watch.observe(chart.place);
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
