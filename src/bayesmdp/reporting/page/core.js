"use strict";
// Shared by all parts: the data, numbers with their errors, elements, colours.
const byId = (id) => document.getElementById(id);
const DATA = JSON.parse(byId("report-data").textContent);
const STATES = DATA.states;
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
