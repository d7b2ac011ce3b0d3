"use strict";
// One state at a time. Only what is looked at is drawn; `#state=LABEL` opens a state.
const EXPLORER = DATA.explorer;
let current = null, chosenPair = null;

function pairsOf(i) {
  const pairs = [];
  for (let p = EXPLORER.first[i]; p < EXPLORER.first[i + 1]; p++) pairs.push(p);
  return pairs;
}
const PLAYS = Object.fromEntries(Object.entries(EXPLORER.plays).map(([name, { pair, probability }]) =>
  [name, new Map(pair.map((p, k) => [p, probability[k]]))]));
const plays = (name, p) => PLAYS[name].get(p) ?? 0;
const actionName = (p) => EXPLORER.action_labels[EXPLORER.action[p]];
function decisionValue(name, pairs) {  // probabilities are rounded: their sum is not quite 1
  const known = pairs.filter((p) => EXPLORER.value[p] !== null);
  const all = known.reduce((sum, p) => sum + plays(name, p), 0);
  return known.reduce((sum, p) => sum + plays(name, p) * EXPLORER.value[p], 0) / all;
}

function rangeBar(low, mid, high, from, to) {
  const at = (x) => 100 * Math.min(Math.max((x - from) / (to - from || 1), 0), 1);
  return make("span", { class: "range", "aria-hidden": "true" },
    make("i", { style: `left:${at(low)}%;width:${Math.max(at(high) - at(low), 0.5)}%` }),
    make("b", { style: `left:${at(mid)}%` }));
}

function verdict(i) {
  const kind = EXPLORER.verdict[i], { policy, reference } = EXPLORER;
  const gain = EXPLORER.gain_sd && `${sig(EXPLORER.gain[i], 2)} (epistemic sd ${sig(EXPLORER.gain_sd[i], 2)})`;
  const sure = EXPLORER.gain_chance && likely(EXPLORER.gain_chance[i]);
  const said = {
    end: ["Nothing to decide.", "Episodes end here."],
    same: ["The same main action.", `“${policy}” and “${reference}” take the same action most often here, though not necessarily equally often: see the table.`],
    unknown: ["Not decided.", "The rule needs counts and the probability of being better, at least one of which is not known here."],
    thin: ["Defer.", `An action of “${policy}” was observed fewer than ${DATA.policies.min_count} times here.`],
    unclear: ["Defer.", `Deciding once as “${policy}” rather than “${reference}” gains ${gain}; the probability that it is better is ${sure}.`],
    recommend: ["The evidence suffices to recommend.", `Deciding once as “${policy}” rather than “${reference}” gains ${gain}; the probability that it is better is ${sure}.`],
  }[kind];
  return make("div", { class: `verdict ${kind}` }, make("p", {}, make("strong", {}, said[0]), ` ${said[1]}`));
}

function facts(i) {
  const of = STATES.policies[EXPLORER.policy];
  const list = [
    [`Value under ${EXPLORER.policy}`, withError(of.value[i], of.value_mcse[i])],
    ["Epistemic sd", withError(of.epistemic_sd[i], of.epistemic_sd_mcse[i])],
    ["Aleatoric sd", withError(of.aleatoric_sd[i], of.aleatoric_sd_mcse[i])],
    STATES.visits && ["Logged visits", thousands(STATES.visits[i])],
  ].filter(Boolean);
  return make("dl", { class: "sds" }, ...list.map(([name, said]) => make("div", {}, make("dt", {}, name), make("dd", {}, said))));
}

function actionTable(i, pairs) {
  const valued = EXPLORER.value !== null;
  const known = valued ? pairs.filter((p) => EXPLORER.value[p] !== null) : [];
  const spread = (p) => (EXPLORER.epistemic_sd ? 1.96 * EXPLORER.epistemic_sd[p] : 0);
  const from = Math.min(...known.map((p) => EXPLORER.value[p] - spread(p)));
  const to = Math.max(...known.map((p) => EXPLORER.value[p] + spread(p)));
  const of = (name) => (p) => EXPLORER[name][p];
  const columns = [  // name, cell, what to sort by
    ["Action", (p) => make("button", { type: "button", class: "pick", "aria-pressed": String(p === chosenPair), onclick: () => pickPair(i, p) }, actionName(p)), actionName],
    EXPLORER.seen && ["Visits", (p) => thousands(EXPLORER.seen[p]), of("seen")],
    valued && ["Value", (p) => EXPLORER.available[p] ? sig(EXPLORER.value[p], 4) : "not offered", of("value")],
    EXPLORER.epistemic_sd && ["95 %", (p) => EXPLORER.available[p] ? rangeBar(EXPLORER.value[p] - spread(p), EXPLORER.value[p], EXPLORER.value[p] + spread(p), from, to) : "", of("value")],
    EXPLORER.epistemic_sd && ["Epistemic sd", (p) => sig(EXPLORER.epistemic_sd[p], 2), of("epistemic_sd")],
    EXPLORER.aleatoric_sd && ["Aleatoric sd", (p) => sig(EXPLORER.aleatoric_sd[p], 3), of("aleatoric_sd")],
    EXPLORER.chance && [`Better than ${EXPLORER.policy}`, (p) => likely(EXPLORER.chance[p]), of("chance")],
    ...POLICIES.map((name) => [name, (p) => { const q = plays(name, p); return q > 0 ? percent(q) : ""; }, (p) => plays(name, p)]),
  ].filter(Boolean);
  const worth = (p) => (valued ? EXPLORER.value[p] : null) ?? -Infinity;
  const ordered = [...pairs].sort((p, q) => (worth(p) === worth(q) ? 0 : worth(q) - worth(p))
    || (EXPLORER.seen ? EXPLORER.seen[q] - EXPLORER.seen[p] : 0));
  const shape = (j, name) => (j && name !== "95 %" ? "n" : false);
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Actions, a table" }, sortable(make("table", { id: "action-table", class: "dense" },
    make("caption", {}, `Actions${valued ? ", the most valuable first" : ""}; the last columns show how often each policy takes them. Select one for its next states.`),
    make("thead", {}, make("tr", {}, ...columns.map(([name], j) => make("th", { scope: "col", class: shape(j, name) }, name)))),
    make("tbody", {}, ...ordered.map((p) => make("tr", { class: !EXPLORER.available[p] ? "unavailable" : plays(EXPLORER.policy, p) > 0.01 && "chosen" },
      ...columns.map(([name, cell, key], j) => make(j ? "td" : "th", { scope: j ? false : "row", class: shape(j, name), "data-sort": key(p) ?? -1e300 }, cell(p)))))))));
}

function reasons(pairs) {
  const offered = pairs.filter((p) => EXPLORER.available[p]);
  const ranked = EXPLORER.value === null ? offered : [...offered].sort((p, q) => EXPLORER.value[q] - EXPLORER.value[p]);
  const most = EXPLORER.seen && [...pairs].sort((p, q) => EXPLORER.seen[q] - EXPLORER.seen[p])[0];
  return POLICIES.map((name) => {
    const played = offered.filter((p) => plays(name, p) > 0.01).sort((p, q) => plays(name, q) - plays(name, p));
    if (!played.length) return null;
    const main = played[0], share = plays(name, main), place = ranked.indexOf(main) + 1;
    const does = share > 0.995 || played.length === 1 ? actionName(main) : `${actionName(main)} (${percent(share)}) and ${played.length - 1} other${played.length > 2 ? "s" : ""}`;
    if (EXPLORER.value === null) return make("li", {}, make("strong", {}, name), `: ${does}.${main === most ? " This is the action logged most often." : ""}`);
    const loss = EXPLORER.value[ranked[0]] - decisionValue(name, pairs);
    let why = place === 1 ? "the most valuable action here" : `number ${place} of ${ranked.length} by value`;
    if (main === most) why += ", and the one logged most often";
    const cost = loss > 1e-5 * Math.abs(EXPLORER.value[ranked[0]]) ? ` Deciding so gives up ${sig(loss, 2)} against the best action.` : "";
    return make("li", {}, make("strong", {}, name), `: ${does}. This is ${why}.${cost}`);
  });
}

function nextTable(p) {
  const next = EXPLORER.next, from = next.first[p], to = next.first[p + 1];
  if (to === from) {
    const why = EXPLORER.available[p] ? "are left out: it was never observed, or the file would be too large" : "are not part of the model: it was observed too rarely to be available";
    return make("p", { class: "left-out" }, `The next states of ${actionName(p)} ${why}.`);
  }
  const rows = [];
  let widest = 0;
  for (let k = from; k < to; k++) widest = Math.max(widest, next.high[k] / next.scale);
  let sum = 0;
  for (let k = from; k < to; k++) {
    const [mid, low, high] = [next.probability[k], next.low[k], next.high[k]].map((x) => x / next.scale);
    sum += mid;
    const place = PLACE.get(next.state[k]);
    const name = stateName(next.state[k]);
    rows.push(make("tr", {},
      make("th", { scope: "row" }, place === undefined ? name : make("a", { href: stateLink(place) }, name)),
      make("td", { class: "n", "data-sort": mid }, `${(100 * mid).toFixed(1)}\u00a0%`),
      make("td", { "data-sort": mid }, rangeBar(low, mid, high, 0, widest)),
      make("td", { class: "n", "data-sort": low }, `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)} %`),
      next.count && make("td", { class: "n", "data-sort": next.count[k] }, thousands(next.count[k]))));
  }
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Next states, a table" }, sortable(make("table", { id: "next-table" },
    make("caption", {}, `The ${rows.length} likeliest next states after ${actionName(p)}, ${percent(Math.min(sum, 1))} of the probability together. ${next.how}`),
    make("thead", {}, make("tr", {}, ...["Next state", "Probability", "Range", "95 % interval", next.count && "Observed"].filter((x) => x !== null)
      .map((name, j) => make("th", { scope: "col", class: j === 1 || j > 2 ? "n" : false }, name)))),
    make("tbody", {}, ...rows))));
}

function pickPair(i, p) {
  chosenPair = p;
  showState(i, true);
  byId("state-panel").querySelector('[aria-pressed="true"]')?.focus();
}
function showState(i, keepPair) {
  const pairs = pairsOf(i);
  current = i;
  if (!keepPair) {
    chosenPair = [...pairs].sort((p, q) => plays(EXPLORER.policy, q) - plays(EXPLORER.policy, p)
      || EXPLORER.available[q] - EXPLORER.available[p])[0] ?? null;
  }
  const panel = byId("state-panel");
  panel.replaceChildren(
    make("h3", { id: "state-heading", tabindex: "-1" }, `State ${STATES.label[i]}`), facts(i), verdict(i),
    ...(pairs.length ? [
      actionTable(i, pairs),
      make("h3", {}, "What each policy does, and why"), make("ul", { class: "why" }, ...reasons(pairs).filter(Boolean)),
      make("h3", {}, "What happens next"), nextTable(chosenPair),
    ] : []));
  byId("state-previous").disabled = i === 0;
  byId("state-next").disabled = i === STATES.state.length - 1;
  byId("state-share").disabled = false;
  byId("share-said").textContent = "";
  byId("state-status").textContent = `State ${STATES.label[i]} is shown.`;
  markOnMap();
}
const goTo = (i) => { location.hash = stateLink(i); };

// A link names a state by its label, or by its number where no label is that.
function placeOf(name) {
  if (BY_LABEL.has(name)) return BY_LABEL.get(name);
  return /^\d+$/.test(name) ? PLACE.get(Number(name)) : undefined;
}
const stateAsked = () => /^#state=(.*)$/.exec(location.hash);
function followLink() {
  const match = stateAsked();
  if (!match) return false;
  let name = match[1];
  try { name = decodeURIComponent(name); } catch { /* a stray per cent sign is part of the name */ }
  const i = placeOf(name);
  if (i === undefined) {
    current = null;
    byId("state-panel").replaceChildren(make("p", {}, `There is no state “${name}” here.`));
    byId("state-status").textContent = `There is no state “${name}” here.`;
    for (const id of ["state-previous", "state-next", "state-share"]) byId(id).disabled = true;
    markOnMap();
  }
  else showState(i);
  if (byId("explorer").getBoundingClientRect().top > 0 || byId("state-panel").getBoundingClientRect().bottom < 200) {
    byId("explorer").scrollIntoView();
  }
  if (document.activeElement?.tagName === "A") byId("state-heading")?.focus({ preventScroll: true });
  return true;
}

// Search: type, arrows and Enter; Escape closes.
const box = byId("state-search"), options = byId("state-options");
const LOWER = STATES.label.map((label) => label.toLowerCase());
let found = [], marked = 0;
function search() {
  const text = box.value.trim().toLowerCase();
  found = [];
  if (text) {
    const rank = (i) => (LOWER[i] === text ? 0 : LOWER[i].startsWith(text) ? 1 : LOWER[i].includes(text) ? 2 : 3);
    found = LOWER.map((_, i) => i).filter((i) => rank(i) < 3).sort((i, j) => rank(i) - rank(j) || i - j).slice(0, 12);
  }
  byId("share-said").textContent = text && !found.length ? "No state shown here has this text in its label." : "";
  marked = 0;
  list();
}
function list() {
  options.replaceChildren(...found.map((i, k) => make("li", {
    role: "option", id: `option-${k}`, "aria-selected": String(k === marked), onclick: () => choose(k),
  }, STATES.label[i], STATES.visits ? make("span", { class: "small" }, `${thousands(STATES.visits[i])} visits`) : null)));
  options.hidden = !found.length;
  box.setAttribute("aria-expanded", String(found.length > 0));
  if (found.length) box.setAttribute("aria-activedescendant", `option-${marked}`);
  else box.removeAttribute("aria-activedescendant");
  options.children[marked]?.scrollIntoView({ block: "nearest" });
}
function choose(k) {
  const i = found[k];
  found = [];
  list();
  box.value = "";
  goTo(i);
}
box.addEventListener("input", search);
box.addEventListener("blur", () => setTimeout(() => { found = []; list(); }, 200));
box.addEventListener("keydown", (event) => {
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (move && found.length) { marked = (marked + move + found.length) % found.length; list(); event.preventDefault(); }
  if (event.key === "Enter" && found.length) choose(marked);
  if (event.key === "Escape") { found = []; list(); }
});
byId("state-previous").addEventListener("click", () => goTo(current - 1));
byId("state-next").addEventListener("click", () => goTo(current + 1));
byId("state-share").addEventListener("click", async () => {
  const link = location.href.split("#")[0] + stateLink(current);
  try {
    await navigator.clipboard.writeText(link);
    byId("share-said").textContent = "Copied.";
  } catch {
    byId("share-said").textContent = link;
  }
});

// A map, where states are squares of a grid.
function drawMap() {
  const grid = EXPLORER.grid;
  if (!grid) return;
  const of = STATES.policies[EXPLORER.policy];
  const values = of.value.filter((x, i) => x !== null && !STATES.terminal[i]);
  const low = Math.min(...values), high = Math.max(...values);
  const turn = darkTheme.matches && !document.documentElement.classList.contains("printing") ? 42 : 62;  // where text must change its colour
  const squares = STATES.state.map((state, i) => {
    const best = pairsOf(i).sort((p, q) => plays(EXPLORER.policy, q) - plays(EXPLORER.policy, p))[0];
    const arrow = STATES.terminal[i] ? "■" : grid.arrow[EXPLORER.action[best]];
    const part = STATES.terminal[i] ? 0 : Math.round(100 * (of.value[i] - low) / (high - low || 1));
    const said = `State ${STATES.label[i]}: ${STATES.terminal[i] ? "terminal" : `${MEASURE} ${sig(of.value[i], 3)}, ${actionName(best)}`}`;
    return make("button", {
      type: "button", "data-place": i, "aria-label": said, title: said, onclick: () => goTo(i),
      style: `grid-row:${grid.row[state] + 1};grid-column:${grid.column[state] + 1};`
        + (STATES.terminal[i] ? "color:var(--muted)" : `background:color-mix(in srgb, var(--heat-high) ${part}%, var(--heat-low));color:${part > turn ? "var(--bg)" : "var(--ink)"}`),
    }, arrow);
  });
  byId("state-map").replaceChildren(
    make("p", { class: "small" }, `Arrows: what ${EXPLORER.policy} does. The stronger the colour, the higher the ${MEASURE}: from ${sig(low, 3)} to ${sig(high, 3)}.`),
    make("div", { class: "map", role: "group", "aria-label": "Map of the states" }, ...squares));
  markOnMap();
}
function markOnMap() {
  for (const square of byId("state-map").querySelectorAll("button")) {
    if (Number(square.dataset.place) === current) square.setAttribute("aria-current", "true");
    else square.removeAttribute("aria-current");
  }
}

darkTheme.addEventListener("change", () => { if (byId("state-map").childElementCount) drawMap(); });
window.addEventListener("hashchange", followLink);
function showDefault() {  // the live state that is met most often
  const met = STATES.policies[EXPLORER.policy].occupancy;
  const live = livePlaces();
  drawMap();
  showState(live.reduce((best, i) => ((met[i] ?? 0) > (met[best] ?? 0) ? i : best), live[0]));
}
whenNear(byId("explorer"), () => {
  if (current === null && !stateAsked()) showDefault();
  else drawMap();
});
followLink();
