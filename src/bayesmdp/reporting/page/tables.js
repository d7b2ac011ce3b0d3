"use strict";
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
    ...[["Value", "value"], ["Epistemic sd", "epistemic_sd"], ["Aleatoric sd", "aleatoric_sd"]].map(([name, q]) => ({
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
  const caption = make("caption", {}, `Every state under ${a}. Expected visits are discounted, of one episode from the start. Monte Carlo errors of differences are those of unpaired draws, as a rule too large.`);
  byId("state-table").replaceChildren(
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "States, a table" },
      make("table", {}, caption, make("thead", {}, make("tr", {}, ...headings)), body)),
    some.length > FIRST_ROWS ? more : "");
}
