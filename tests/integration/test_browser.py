"""The report in a real browser: Chromium, driven by Selenium, from disk.

One browser for the whole file. Times are limits for a slow machine.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debian import install

import bayesmdp as bm

pytestmark = [pytest.mark.integration, pytest.mark.timed]

webdriver = pytest.importorskip(
    "selenium.webdriver", reason="Selenium is not installed"
)

N_STATES, N_ACTIONS, N_ROWS = 752, 25, 120_000
EVIL = "<script>window.harmed = 1</script>"
ENTER, TAB, SPACE, ESCAPE = "\ue007", "\ue004", "\ue00d", "\ue00c"  # keys
UP, DOWN = "\ue013", "\ue015"
FLAGS = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage"]
FLAGS += ["--no-first-run", "--disable-background-networking"]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DRIVER = ("chromedriver", "chromium.chromedriver")
PLOTS = ["intervals", "acceptability", "scatter", "diagonal", "attribution"]
PLOTS += ["support", "evidence", "ceac", "evpi"]


class Browser:
    """What tests do with a browser, in their own words."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, *, anchor: str = "") -> None:
        """Open a file, in a window of a desk's size; again where a link is given."""
        self.size(1280, 900)
        self.theme(False)
        if anchor or self.driver.current_url.split("#")[0] != path.as_uri():
            self.driver.get("about:blank")
            self.driver.get(path.as_uri() + anchor)

    def size(self, width: int, height: int) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": width,
                "height": height,
                "deviceScaleFactor": 1,
                "mobile": width < 500,
            },
        )

    def theme(self, dark: bool) -> None:
        feature = {
            "name": "prefers-color-scheme",
            "value": "dark" if dark else "light",
        }
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [feature]}
        )

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, *arguments: Any) -> Any:
        """Wait until an expression is true; return it."""
        for _ in range(1000):
            if found := self.js(f"return {script}", *arguments):
                return found
            time.sleep(0.01)
        return pytest.fail(f"never true: {script}")

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def click(self, selector: str) -> None:
        """Click where it is seen, not behind what stays at the top."""
        self.show(selector)
        from selenium.common.exceptions import StaleElementReferenceException

        for _ in range(5):  # the page may draw the element again in between
            try:
                self.find(selector).click()
                return
            except StaleElementReferenceException:
                time.sleep(0.2)
        pytest.fail(f"never stays: {selector}")

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])]"
        return list(self.js(f"{script}.map((x) => x.textContent.trim())", selector))

    def show(self, selector: str) -> None:
        self.js(
            "document.querySelector(arguments[0])"
            ".scrollIntoView({behavior: 'instant', block: 'center'})",
            selector,
        )

    def logs(self) -> tuple[list[str], list[str]]:
        """Return addresses asked for, and complaints, since the last time."""
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        said = [x["message"] for x in self.driver.get_log("browser")]
        return asked, said


def posterior_of_many() -> bm.Posterior:
    """As large as the AI Clinician's: every pair was observed, most of them rarely."""
    rng = np.random.default_rng(0)
    state = rng.integers(0, N_STATES - 2, N_ROWS)
    action = rng.integers(0, N_ACTIONS, N_ROWS)
    near = (state + rng.integers(-6, 7, N_ROWS)) % (N_STATES - 2)
    ends = N_STATES - 2 + (rng.random(N_ROWS) < 0.2 + 0.02 * action)
    next_state = np.where(rng.random(N_ROWS) < 0.1, ends, near)
    labels = [f"cluster {i}" for i in range(N_STATES - 2)] + ["death", "home"]
    labels[17], labels[300], labels[301] = "septic shock", EVIL, 50 * "endless"
    task = bm.Task(
        N_STATES,
        N_ACTIONS,
        np.arange(N_STATES) == N_STATES - 1,
        discount=0.99,
        terminal=["death", "home"],
        state_labels=labels,
        action_labels=[f"fluid {a // 5}, vasopressor {a % 5}" for a in range(25)],
    )
    counts = bm.Counts.from_arrays(state, action, next_state)
    return bm.fit(counts, task, prior=bm.SparsePrior(1, "death"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    posterior = posterior_of_many()
    policies = {
        "clinicians": bm.policies.behaviour(posterior),
        "nominal": bm.policies.nominal(posterior),
    }
    table = bm.compare(policies, posterior.draws(20, seed=0))
    curve = bm.priors.evidence_curve(
        posterior.counts, posterior.task, grid=[0.01, 0.1, 1, 10]
    )
    rng = np.random.default_rng(0)
    cost, effect = rng.normal([10, 20], 3, (50, 2)), rng.normal([1, 2], 0.2, (50, 2))
    ce = bm.economics.from_samples(cost, effect, ["care", EVIL], [0, 5, 10, 20])
    made = bm.report(posterior, table, evidence=curve, cost_effectiveness=ce)
    return made.save(tmp_path_factory.mktemp("large") / "report.html")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = bm.worlds.gridworld()
    prior = bm.SymmetricPrior(support=world.support)
    posterior = bm.fit(world.sample(500, seed=0), world.task, prior=prior)
    policies = {
        "logged": bm.policies.behaviour(posterior),
        "nominal": bm.policies.nominal(posterior),
    }
    made = bm.report(posterior, bm.compare(policies, posterior.draws(300)))
    return made.save(tmp_path_factory.mktemp("grid") / "grid.html")


def program(*names: str) -> str | None:
    """Find a program by any of its names."""
    return next((found for name in names if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if program(*CHROMIUM) is None or program(*DRIVER) is None:
        install("Chromium", "chromium", "chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(program(*CHROMIUM))
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    for flag in [*FLAGS, *root]:
        options.add_argument(flag)
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    service = webdriver.ChromeService(str(program(*DRIVER)))
    driver = webdriver.Chrome(options, service)
    yield Browser(driver)
    driver.quit()


def test_opens_from_disk_at_once_and_asks_for_nothing(
    browser: Browser, large: Path
) -> None:
    assert large.stat().st_size < 8_000_000
    browser.logs()
    browser.open(large)
    times = browser.wait(
        "(() => {const [n] = performance.getEntriesByType('navigation');"
        "const [p] = performance.getEntriesByName('first-contentful-paint');"
        "return n.loadEventEnd && p && [p.startTime, n.loadEventEnd]})()"
    )
    assert max(times) < 2000  # milliseconds until painted, and until it answers
    assert "how sure are we" in browser.find("#summary h1").text
    assert browser.find(".alarm, .checks").is_displayed()
    for name in PLOTS:
        browser.show(f"#plot-{name}")
        browser.wait("document.querySelector(arguments[0])", f"#plot-{name} .main-svg")
    drawn = browser.js(
        "return [...document.querySelectorAll('.plot')]"
        ".map((x) => x.querySelectorAll('.trace, .hm').length)"
    )
    assert len(drawn) == len(PLOTS)
    assert all(drawn)
    browser.show("#explorer")
    browser.wait("document.querySelector('#action-table')")
    asked, said = browser.logs()
    assert {x.split(":")[0] for x in asked} <= {"file", "data", "blob", "about"}
    assert sum(x.startswith("file:") for x in asked) == 1
    assert said == []


def test_tables_are_sorted(browser: Browser, large: Path) -> None:
    browser.open(large)
    before = browser.texts("#policy-table tbody th")
    button = "#policy-table thead th:nth-child(2) button"
    browser.click(button)  # largest value first
    heading = browser.find("#policy-table thead th:nth-child(2)")
    assert heading.get_attribute("aria-sort") == "descending"
    assert browser.texts("#policy-table tbody th") == before
    browser.find(button).send_keys(ENTER)
    assert heading.get_attribute("aria-sort") == "ascending"
    assert browser.texts("#policy-table tbody th") == before[::-1]
    browser.show("#state-table")
    browser.wait("document.querySelector('#state-table tbody tr')")
    browser.click("#state-table thead th:nth-child(2) button")
    visits = [
        int(x.replace(",", "")) for x in browser.texts("#state-table td:nth-child(2)")
    ]
    assert len(visits) == 15
    assert visits == sorted(visits, reverse=True)
    browser.click("#state-table button.plain")
    everything = browser.texts("#state-table td:nth-child(2)")
    assert len(everything) == N_STATES - 2
    assert max(int(x) for x in everything) == visits[0]


def test_states_are_found_by_label_and_by_link(browser: Browser, large: Path) -> None:
    browser.open(large)
    browser.show("#explorer")
    box = browser.find("#state-search")
    box.send_keys("SEPTIC")
    browser.wait("document.querySelectorAll('#state-options li').length === 1")
    box.send_keys(ENTER)
    heading = "document.querySelector('#state-heading')?.textContent"
    browser.wait(f"{heading} === 'State septic shock'")
    assert browser.js("return location.hash") == "#state=septic%20shock"
    assert "Visits" in browser.texts("#action-table thead th")
    assert 1 < len(browser.texts("#next-table tbody tr")) <= 20
    browser.click("#action-table thead th:nth-child(2) button")
    seen = [int(x) for x in browser.texts("#action-table tbody td:nth-child(2)")]
    assert len(seen) > 10
    assert seen == sorted(seen, reverse=True)
    browser.js("location.hash = '#state=cluster 40'")
    browser.wait(f"{heading} === 'State cluster 40'")
    browser.open(large, anchor="#state=17")  # a number, where no label is that
    browser.wait(f"{heading} === 'State septic shock'")
    assert browser.js(
        "return document.querySelector('#explorer').getBoundingClientRect().top < 400"
    )


def test_a_link_to_no_state_shows_no_other(browser: Browser, grid: Path) -> None:
    browser.open(grid, anchor="#state=nowhere")
    browser.show("#state-panel")
    browser.wait("document.querySelector('#state-map button')")  # the explorer is awake
    assert browser.texts("#state-panel") == ["There is no state “nowhere” here."]
    assert not browser.find("#state-share").is_enabled()
    browser.js("location.hash = '#state=7'")
    browser.wait("document.querySelector('#state-heading')")
    assert browser.find("#state-share").is_enabled()
    browser.js("location.hash = '#state=nowhere'")
    browser.wait("!document.querySelector('#state-heading')")


def test_what_was_never_looked_at_is_printed_too(browser: Browser, grid: Path) -> None:
    browser.open(grid, anchor="#summary")
    browser.wait("document.readyState === 'complete'")  # else nobody listens yet
    browser.js("window.dispatchEvent(new Event('beforeprint'))")
    browser.wait("document.querySelectorAll('#state-table tbody tr').length === 15")
    assert len(browser.texts("#action-table tbody tr")) == 4
    widths = browser.js(
        "return [...document.querySelectorAll('.plot .main-svg')]"
        ".map((x) => x.getBoundingClientRect().width)"
    )
    assert 300 < max(widths) <= 680  # the paper, not the screen
    browser.js("window.dispatchEvent(new Event('afterprint'))")
    assert not browser.js("return document.documentElement.className")


def test_labels_are_harmless(browser: Browser, large: Path) -> None:
    browser.open(large, anchor="#state=300")
    heading = "document.querySelector('#state-heading')?.textContent"
    browser.wait(f"{heading} === arguments[0]", f"State {EVIL}")
    browser.show("#plot-scatter")
    browser.wait("document.querySelector('#plot-scatter .main-svg')")
    browser.js("stateTable('nominal', 'clinicians')")
    assert browser.js("return window.harmed") is None


def test_the_keyboard_suffices(browser: Browser, large: Path) -> None:
    browser.open(large)
    browser.show("#explorer")
    box = browser.find("#state-search")
    box.send_keys("cluster 4")
    browser.wait("document.querySelectorAll('#state-options li').length === 12")
    box.send_keys(DOWN, DOWN, UP)
    marked = "document.querySelector('#state-options [aria-selected=true]')"
    name = browser.js(f"return {marked}.firstChild.textContent")
    assert box.get_attribute("aria-activedescendant") == "option-1"
    box.send_keys(ENTER)
    heading = "document.querySelector('#state-heading')?.textContent"
    browser.wait(f"{heading} === arguments[0]", f"State {name}")
    box.send_keys(TAB)
    assert browser.js("return document.activeElement.id") == "state-previous"
    other = browser.find("#action-table tbody tr:nth-child(3) .pick")
    action = other.text
    other.send_keys(SPACE)
    assert action in browser.texts("#next-table caption")[0]
    focused = "return document.activeElement.getAttribute('aria-pressed')"
    assert browser.js(focused) == "true"
    box.send_keys("x", ESCAPE)
    assert not browser.find("#state-options").is_displayed()


def test_switching_states_is_quick(browser: Browser, large: Path) -> None:
    browser.open(large)
    browser.show("#explorer")
    browser.wait("document.querySelector('#action-table')")
    took = browser.js(
        "return Array.from({length: 40}, (_, k) => {const began = performance.now();"
        "showState(18 * k); document.body.offsetHeight;"
        "return performance.now() - began})"
    )
    assert np.median(took) < 100  # milliseconds, laid out


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(browser: Browser, large: Path, width: int) -> None:
    browser.open(large, anchor="#state=301")
    browser.size(width, 800)
    for section in ("policies", "states", "support", "explorer", "methods"):
        browser.show(f"#{section} h2")
    browser.wait("document.querySelector('#action-table')")
    assert browser.js("return document.documentElement.scrollWidth") <= width
    names = browser.js(
        "return [...document.querySelectorAll('.plot, input, select, .scroll')]"
        ".map((x) => x.getAttribute('aria-label') || x.closest('label')?.textContent)"
    )
    assert all(names)


def test_dark_mode_reaches_the_plots(browser: Browser, grid: Path) -> None:
    browser.open(grid)
    browser.show("#plot-intervals")
    browser.wait("document.querySelector('#plot-intervals .main-svg')")
    look = (
        "[getComputedStyle(document.body).backgroundColor,"
        "document.querySelector('#plot-intervals .xtick text').style.fill]"
    )
    light = browser.js(f"return {look}")
    browser.theme(True)
    browser.wait(f"{look}.every((x, i) => x !== arguments[0][i])", light)
    dark = browser.js(f"return {look}")
    brightness = [sum(map(int, x[4:-1].split(","))) for x in (*light, *dark)]
    assert brightness[0] > 3 * 200 > 3 * 100 > brightness[1]
    assert brightness[2] < 3 * 60 < 3 * 160 < brightness[3]
    browser.js("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.js(f"return {look}") == light  # on paper
    browser.js("window.dispatchEvent(new Event('afterprint'))")


def test_a_grid_has_a_map(browser: Browser, grid: Path) -> None:
    browser.open(grid)
    browser.show("#explorer")
    browser.wait("document.querySelectorAll('#state-map button').length === 25")
    squares = browser.texts("#state-map button")
    assert set(squares) <= {"↑", "→", "↓", "←", "■"}
    assert squares[20:] == ["■"] * 5
    browser.click("#state-map button:nth-child(8)")
    browser.wait("document.querySelector('#state-heading').textContent === 'State 7'")
    marked = browser.find("#state-map [aria-current]")
    assert marked.get_attribute("aria-label").startswith("State 7:")


def test_a_request_would_be_noticed(browser: Browser, grid: Path) -> None:
    """The check can fail, and the page's own policy forbids the request."""
    browser.open(grid)
    browser.logs()
    browser.js("fetch('http://127.0.0.1:9/x').catch(() => 0)")
    browser.js("console.error('noticed')")
    browser.wait("true")
    asked, said = browser.logs()
    assert any("noticed" in x for x in said)
    assert any("Content Security Policy" in x for x in said)
    assert not any(x.startswith("http") for x in asked)
