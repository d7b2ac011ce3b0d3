"use strict";
// Shared by all parts: the data, numbers with their errors, elements, colours.
const byId = (id) => document.getElementById(id);
const DATA = JSON.parse(byId("report-data").textContent);
const STATES = DATA.states;
const MEASURE = DATA.summary.measure, COSTS = MEASURE === "cost";
const MINUS = "\u2212", NOTHING = "\u2013";
const POLICIES = DATA.policies.rows.map((row) => row.name);

function fixed(x, digits) {
  const text = x.toFixed(Math.min(Math.max(digits, 0), 12));
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", MINUS);
}
function sig(x, digits = 3) {
  if (x === null || x === undefined) return NOTHING;
  if (x === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(x)));
  if (size < -5 || size > 8) return x.toExponential(digits - 1).replace("-", MINUS);
  return fixed(x, digits - 1 - size);
}
// A number to the precision its error allows; as `rounded` in Python.
function withError(x, error) {
  if (x === null) return NOTHING;
  if (!(error > 0)) return sig(x, 5);
  const digits = -Math.floor(Math.log10(error));
  if (digits > 10) return sig(x, 6);
  return `${fixed(x, digits)} ± ${fixed(error, digits)}`;
}
function percent(x) {
  if (x === null || x === undefined) return NOTHING;
  if (x > 0.995 && x < 1) return "> 99\u00a0%";
  if (x > 0 && x < 0.005) return "< 1\u00a0%";
  return `${(100 * x).toFixed(0)}\u00a0%`;
}
// A probability that is approximate: never certain.
function likely(x) {
  if (x === null || x === undefined) return NOTHING;
  return percent(Math.min(Math.max(x, 1e-9), 1 - 1e-9));
}
const thousands = (n) => n.toLocaleString("en-GB");

// Text from users enters the page here only, as text, never as markup.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((x) => x !== null && x !== undefined));
  return element;
}
const narrow = () => window.innerWidth < 760;
function short(text) {  // a name beside a plot
  const characters = [...String(text)], most = narrow() ? 16 : 32;
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : String(text);
}
// Plotly reads a little markup in its texts.
const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const darkTheme = window.matchMedia("(prefers-color-scheme: dark)");
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const PLACE = new Map(STATES.state.map((state, i) => [state, i]));
const BY_LABEL = new Map(STATES.label.map((label, i) => [label, i]));
function stateName(state) {
  const i = PLACE.get(state);
  return i === undefined ? String(state) : STATES.label[i];
}
const stateLink = (i) => `#state=${encodeURIComponent(STATES.label[i])}`;

// Draw what comes near the window, not before.
function whenNear(element, act) {
  const watcher = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) { watcher.disconnect(); act(); }
  }, { rootMargin: "400px" });
  watcher.observe(element);
}

// Sorting: a button in every heading; the table of states is made from columns.
function sortButton(heading, act) {
  const button = make("button", { type: "button" });
  button.append(...heading.childNodes);
  heading.append(button);
  button.addEventListener("click", () => {
    const up = heading.getAttribute("aria-sort")
      ? heading.getAttribute("aria-sort") === "descending"
      : !heading.classList.contains("n");  // numbers: the largest first
    for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    act(up ? 1 : -1);
  });
}
function order(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
function cellKey(cell) {
  const key = cell.dataset.sort;
  return key === undefined || Number.isNaN(Number(key)) ? cell.textContent.trim() : Number(key);
}
function sortable(table) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((heading, j) => sortButton(heading, (sign) => {
    body.append(...[...body.rows].sort((a, b) => sign * order(cellKey(a.cells[j]), cellKey(b.cells[j]))));
  }));
  return table;
}
document.querySelectorAll("table.sortable").forEach(sortable);

const FIRST_ROWS = 15;
function stateTable(a, b) {
  const one = STATES.policies[a], two = STATES.policies[b];
  const some = STATES.state.map((_, i) => i).filter((i) => !STATES.terminal[i]);
  const columns = [
    { name: "State", key: (i) => STATES.label[i], cell: (i) => make("a", { href: stateLink(i) }, STATES.label[i]) },
    STATES.visits && { name: "Logged visits", number: true, key: (i) => STATES.visits[i], cell: (i) => thousands(STATES.visits[i]) },
    { name: `Expected visits, ${a}`, number: true, key: (i) => one.occupancy[i], cell: (i) => sig(one.occupancy[i], 2) },
    ...[[COSTS ? "Cost" : "Value", "value"], ["Epistemic sd", "epistemic_sd"], ["Aleatoric sd", "aleatoric_sd"]].map(([name, q]) => ({
      name, number: true, key: (i) => one[q][i], cell: (i) => withError(one[q][i], one[`${q}_mcse`][i]),
    })),
    { name: `Minus ${b}`, number: true, key: (i) => one.value[i] - two.value[i],
      cell: (i) => withError(one.value[i] - two.value[i], Math.hypot(one.value_mcse[i], two.value_mcse[i])) },
  ].filter(Boolean);
  let list = some, all = false;
  const body = make("tbody");
  const headings = columns.map((c) => make("th", { scope: "col", class: c.number && "n" }, c.name));
  const more = make("button", { type: "button", class: "plain no-print" });
  const fill = () => {
    body.replaceChildren(...list.slice(0, all ? list.length : FIRST_ROWS).map((i) => make("tr", {},
      ...columns.map((c, j) => make(j ? "td" : "th", j ? { class: c.number && "n" } : { scope: "row" }, c.cell(i))))));
    more.textContent = all ? "Show fewer" : `Show all ${thousands(list.length)} states`;
  };
  columns.forEach((c, j) => sortButton(headings[j], (sign) => {
    list = [...some].sort((x, y) => sign * order(c.key(x) ?? -Infinity, c.key(y) ?? -Infinity));
    fill();
  }));
  more.addEventListener("click", () => { all = !all; fill(); });
  list = [...some].sort((x, y) => order(one.occupancy[y] ?? 0, one.occupancy[x] ?? 0));
  headings[columns.findIndex((c) => c.name.startsWith("Expected visits"))].setAttribute("aria-sort", "descending");
  fill();
  const caption = make("caption", {}, `Every state under ${a}. Expected visits are discounted, of one episode from the start. Monte Carlo errors of differences treat draws as unpaired, and are usually too large.`);
  byId("state-table").replaceChildren(
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "States, a table" },
      make("table", {}, caption, make("thead", {}, make("tr", {}, ...headings)), body)),
    some.length > FIRST_ROWS ? more : "");
}

// Plots: drawn when they come into view, and again when the theme changes.
let plotlyReady = false;
function ensurePlotly() {
  if (plotlyReady) return;
  const script = document.createElement("script");
  script.textContent = byId("plotly-source").textContent;
  document.head.append(script);  // runs at once
  plotlyReady = true;
}
function axis(title, more) {
  return {
    title: { text: title, standoff: 8 }, gridcolor: colour("line"), zeroline: false, linecolor: colour("other"),
    showline: true, ticks: "outside", tickcolor: colour("other"), automargin: true, ...more,
  };
}
function draw(element, traces, layout) {
  ensurePlotly();
  // On paper a plot has the size of its place, whatever it had on the screen.
  const printing = document.documentElement.classList.contains("printing");
  const size = printing ? { width: element.clientWidth, height: element.clientHeight } : { autosize: true };
  const shared = {
    ...size,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") },
    margin: { l: 56, r: 14, t: 12, b: 48 },
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("other"), font: { color: colour("ink") } },
    ...layout,
  };
  Plotly.react(element, traces, shared, { displayModeBar: false, responsive: true, scrollZoom: false });
}
// Names along an axis whose places are numbers: equal beginnings stay apart.
const named = (names) => ({ tickmode: "array", tickvals: names.map((_, i) => i), ticktext: names.map((x) => escaped(short(x))) });
const shade = (name) => name === DATA.summary.recommended ? colour("accent") : colour("other");
const LINES = ["solid", "dash", "dot", "dashdot", "longdash"];

function intervals(element) {
  const rows = [...DATA.policies.rows].reverse();
  const at = rows.map((row) => row.value.value);
  draw(element, [{
    type: "scatter", mode: "markers", x: at, y: rows.map((_, i) => i), customdata: rows.map((row) => escaped(short(row.name))),
    marker: { size: 10, color: rows.map((row) => shade(row.name)) },
    error_x: {
      type: "data", symmetric: false, thickness: 2.5, width: 6, color: colour("muted"),
      array: rows.map((row, i) => row.interval.high.value - at[i]),
      arrayminus: rows.map((row, i) => at[i] - row.interval.low.value),
    },
    text: rows.map((row) => `${sig(row.interval.low.value, 4)} to ${sig(row.interval.high.value, 4)}`),
    hovertemplate: "%{customdata}: %{x:.4g}<br>95 %: %{text}<extra></extra>",
  }], { xaxis: axis(`${MEASURE} ${DATA.summary.when}`), yaxis: axis("", { ...named(rows.map((row) => row.name)), showgrid: false, range: [-0.6, rows.length - 0.4] }) });
}
function acceptability(element) {
  const { x, probability } = DATA.policies.acceptability;
  const names = POLICIES.filter((name) => Object.hasOwn(probability, name));
  draw(element, names.map((name, i) => ({
    type: "scatter", mode: "lines", name: escaped(short(name)), x, y: probability[name],
    line: { color: name === DATA.summary.recommended ? colour("accent") : [colour("aleatoric"), colour("epistemic"), colour("other")][i % 3],
            width: name === DATA.summary.recommended ? 3 : 2, dash: LINES[i % LINES.length] },
    hovertemplate: `%{y:.3f} to ${COSTS ? "save" : "gain"} at least %{x:.3g}<extra>%{fullData.name}</extra>`,
  })), {
    showlegend: true, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, margin: { l: 56, r: 14, t: 40, b: 48 },
    xaxis: axis(`${COSTS ? "saving" : "gain"} over ${escaped(short(DATA.policies.reference))}, at least`, { zeroline: true, zerolinecolor: colour("muted") }),
    yaxis: axis("probability", { range: [-0.02, 1.02] }),
  });
}
function ceac(element) {
  const { thresholds: x, ceac: probability } = DATA.economics;
  draw(element, Object.keys(probability).map((name, i) => ({
    type: "scatter", mode: x.length > 1 ? "lines" : "markers", name: escaped(short(name)), x, y: probability[name],
    line: { color: [colour("accent"), colour("aleatoric"), colour("epistemic"), colour("other")][i % 4], width: 2.5, dash: LINES[i % LINES.length] },
    hovertemplate: "%{y:.3f} at %{x:,.6g}<extra>%{fullData.name}</extra>",
  })), {
    showlegend: true, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, margin: { l: 56, r: 14, t: 40, b: 48 },
    xaxis: axis("threshold: cost per unit of effect"), yaxis: axis("probability", { range: [-0.02, 1.02] }),
  });
}
function evpi(element) {
  const { thresholds: x, evpi: y, cost, per } = DATA.economics;
  draw(element, [{ type: "scatter", mode: x.length > 1 ? "lines" : "markers", x, y, line: { color: colour("accent"), width: 2.5 },
    hovertemplate: "%{y:,.4g} at %{x:,.6g}<extra></extra>" }],
  { xaxis: axis("threshold: cost per unit of effect"), yaxis: axis(`EVPI, ${escaped(short(cost))} per ${per}`, { rangemode: "tozero" }) });
}
const chosenPolicies = () => [byId("policy-a").value, byId("policy-b").value];
function livePlaces() {
  return STATES.state.map((_, i) => i).filter((i) => !STATES.terminal[i]);
}
function sizes(policy, places) {
  const most = Math.max(...places.map((i) => policy.occupancy[i] ?? 0), 1e-12);
  return places.map((i) => 4 + 14 * Math.sqrt((policy.occupancy[i] ?? 0) / most));
}
function openOnClick(element) {
  if (element.dataset.opens) return;
  element.dataset.opens = "yes";
  element.on("plotly_click", (event) => { location.hash = stateLink(event.points[0].customdata); });
}
function scatter(element) {
  const [a] = chosenPolicies(), of = STATES.policies[a], places = livePlaces();
  draw(element, [{
    type: "scatter", mode: "markers", customdata: places, text: places.map((i) => escaped(short(STATES.label[i]))),
    x: places.map((i) => of.aleatoric_sd[i]), y: places.map((i) => of.epistemic_sd[i]),
    marker: { size: sizes(of, places), color: colour("epistemic"), opacity: 0.55, line: { width: 0.5, color: colour("card") } },
    hovertemplate: "state %{text}<br>epistemic %{y:.3g}<br>aleatoric %{x:.3g}<extra></extra>",
  }], { xaxis: axis("aleatoric sd"), yaxis: axis("epistemic sd", { rangemode: "tozero" }) });
  openOnClick(element);
}
function diagonal(element) {
  const [a, b] = chosenPolicies(), up = STATES.policies[a], along = STATES.policies[b], places = livePlaces();
  const x = places.map((i) => along.value[i]), y = places.map((i) => up.value[i]);
  const known = [...x, ...y].filter((value) => value !== null);
  const low = Math.min(...known), high = Math.max(...known);
  const bar = (of) => ({ type: "data", array: places.map((i) => of.epistemic_sd[i]), thickness: 0.7, width: 0, color: colour("other") });
  draw(element, [
    { type: "scatter", mode: "lines", x: [low, high], y: [low, high], line: { color: colour("muted"), width: 1, dash: "dash" }, hoverinfo: "skip" },
    {
      type: "scatter", mode: "markers", x, y, error_x: bar(along), error_y: bar(up), customdata: places,
      text: places.map((i) => escaped(short(STATES.label[i]))),
      marker: { size: 6, color: colour("accent"), opacity: 0.7 },
      hovertemplate: "state %{text}<br>%{x:.4g} and %{y:.4g}<extra></extra>",
    },
  ], { xaxis: axis(`${MEASURE} under ${escaped(short(b))}`), yaxis: axis(`${MEASURE} under ${escaped(short(a))}`) });
  openOnClick(element);
}
function attribution(element) {
  const rows = DATA.attribution.states.slice(0, 15).reverse();
  draw(element, [{
    type: "bar", orientation: "h", x: rows.map((row) => 100 * row.share), y: rows.map((_, i) => i), text: rows.map((row) => escaped(short(row.state_label))), textposition: "none",
    customdata: rows.map((row) => PLACE.get(row.state)), marker: { color: colour("epistemic") },
    hovertemplate: "state %{text}: %{x:.2f} %<extra></extra>",
  }], { xaxis: axis("share of the epistemic variance, %"), yaxis: axis("", { ...named(rows.map((row) => `state ${row.state_label}`)), ticks: "", showgrid: false }), bargap: 0.35 });
  openOnClick(element);
}
function support(element) {
  const { map, map_states: states, action_labels: labels } = DATA.support;
  const z = map.map((row) => row.map((n) => (n > 0 ? Math.log10(n) : null)));
  const top = Math.max(1, ...map.map((row) => Math.max(...row)));
  const ticks = [1, 10, 100, 1000, 1e4, 1e5, 1e6].filter((n) => n <= top * 1.01);
  const names = states.map((s) => escaped(short(stateName(s))));
  draw(element, [{
    type: "heatmap", z, zmin: 0, zmax: Math.log10(top), xgap: states.length < 120 ? 1 : 0, ygap: 1,
    colorscale: [[0, colour("heat-low")], [1, colour("heat-high")]], hoverongaps: false,
    text: map.map((row, a) => row.map((n, i) => `state ${names[i]}: ${n} times<br>${escaped(short(labels[a]))}`)),
    hovertemplate: "%{text}<extra></extra>",
    colorbar: { title: { text: "visits", side: "top" }, tickvals: ticks.map(Math.log10), ticktext: ticks.map((n) => thousands(n)), thickness: 10, outlinewidth: 0, len: 0.9 },
  }], {
    xaxis: axis("states, most visited first", { showgrid: false, ...(states.length <= 30 ? named(states.map(stateName)) : {}) }),
    yaxis: axis("", { ...named(labels), ticks: "", showgrid: false, autorange: "reversed", tickfont: { size: narrow() ? 9 : 12 } }),
  });
}
function evidence(element) {
  const { grid, log_evidence: height, best, interval } = DATA.prior.evidence;
  const shapes = best === null ? [] : [
    { type: "rect", x0: interval[0], x1: interval[1], yref: "paper", y0: 0, y1: 1, fillcolor: colour("epistemic"), opacity: 0.25, line: { width: 0 } },
    { type: "line", x0: best, x1: best, yref: "paper", y0: 0, y1: 1, line: { color: colour("epistemic"), width: 1.5, dash: "dot" } },
  ];
  draw(element, [{ type: "scatter", mode: "lines", x: grid, y: height, line: { color: colour("accent"), width: 2.5 },
    hovertemplate: "concentration %{x:.3g}<br>log evidence %{y:.1f}<extra></extra>" }],
  { shapes, xaxis: axis("concentration of a symmetric prior", { type: "log", dtick: 1, exponentformat: "power" }), yaxis: axis("log evidence") });
}
function information(element) {
  const rows = [...DATA.information.states].reverse();
  draw(element, [{
    type: "bar", orientation: "h", x: rows.map((row) => row.gain), y: rows.map((_, i) => i), marker: { color: colour("accent") },
    text: rows.map((row) => `sample ${escaped(short(row.action))}`), textposition: "inside", insidetextanchor: "end", constraintext: "none", customdata: rows.map((row) => PLACE.get(row.state)),
    hovertemplate: "%{x:.3g} more<br>%{text}<extra></extra>",
  }], { xaxis: axis(`expected gain${DATA.information.unit} per ${thousands(DATA.information.per)} later patients`), yaxis: axis("", { ...named(rows.map((row) => `state ${row.state_label}`)), ticks: "", showgrid: false }), bargap: 0.3 });
  openOnClick(element);
}
function informationMap(element) {
  const { states: rows, action_labels: labels } = DATA.information;
  draw(element, [{
    type: "heatmap", z: labels.map((_, a) => rows.map((row) => row.of_actions[a])), zmin: 0, xgap: 1, ygap: 1, hoverongaps: false,
    colorscale: [[0, colour("heat-low")], [1, colour("heat-high")]],
    text: labels.map((label) => rows.map((row) => `state ${escaped(short(row.state_label))}<br>${escaped(short(label))}`)),
    hovertemplate: "%{text}: %{z:.3g}<extra></extra>",
    colorbar: { title: { text: "gain", side: "top" }, thickness: 10, outlinewidth: 0, len: 0.9 },
  }], {
    xaxis: axis("states, largest expected gain first", { ...named(rows.map((row) => row.state_label)), showgrid: false }),
    yaxis: axis("", { ...named(labels), ticks: "", showgrid: false, autorange: "reversed", tickfont: { size: narrow() ? 9 : 12 } }),
  });
}
const DRAWERS = {
  "plot-intervals": intervals, "plot-acceptability": acceptability, "plot-ceac": ceac, "plot-evpi": evpi, "plot-scatter": scatter, "plot-diagonal": diagonal,
  "plot-attribution": attribution, "plot-support": support, "plot-evidence": evidence,
  "plot-information": information, "plot-information-map": informationMap,
};
const drawn = new Set();
function drawPlot(id) { drawn.add(id); DRAWERS[id](byId(id)); }
const present = Object.keys(DRAWERS).filter(byId);
for (const id of present) whenNear(byId(id), () => drawPlot(id));
const redraw = () => drawn.forEach(drawPlot);
darkTheme.addEventListener("change", redraw);
for (const id of ["policy-a", "policy-b"]) {
  byId(id).addEventListener("change", () => {
    stateTable(...chosenPolicies());
    for (const plot of ["plot-scatter", "plot-diagonal"]) if (drawn.has(plot)) drawPlot(plot);
  });
}
whenNear(byId("state-table"), () => stateTable(...chosenPolicies()));
window.addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  for (const details of document.querySelectorAll("details")) details.open = true;
  stateTable(...chosenPolicies());
  if (current === null && !stateAsked()) showDefault();
  present.forEach(drawPlot);
});
window.addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  redraw();
});
