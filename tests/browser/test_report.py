"""The page in a real browser without a network: it draws, complains of nothing and asks for nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from onlooker import report
from onlooker.privacy import structures
from onlooker.privacy.terms import Terms
from run_folders import environment, grouped_terms, make, metrics, open_terms, personal_metrics, record_terms, terms

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WIDE, NARROW = 1280, 420


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}; install Debian's package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


class Opened:
    """A page, and everything that it complained of or asked for."""

    def __init__(self, browser: Browser, path: Path, width: int = WIDE, **context: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **context)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_load_state("load")
        self.own = path.as_uri()

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self.context.close()

    def count(self, plot: str, kind: str) -> int:
        """How many shapes of one kind Plotly drew in a plot."""
        return self.page.locator(f"#{plot} .scatterlayer {kind}").count()

    def colours(self, plot: str) -> list[str]:
        return self.page.eval_on_selector_all(
            f"#{plot} .scatterlayer path.js-line", "lines => lines.map(l => l.style.stroke)"
        )

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@pytest.mark.parametrize(
    ("case", "rules"),
    [("shares", terms()), ("records", record_terms()), ("open", open_terms())],
)
def test_the_page_draws_offline_without_a_complaint(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, rules: Terms
) -> None:
    observers = ["public", "coordinator"] if case == "open" else ["public", "coordinator", "aux:0", "aux:0+aux:1"]
    page = report.write(make(tmp_path / case, rules, metrics(40), environment(observers=observers)))
    picture, small_picture = tmp_path / f"{case}.png", tmp_path / f"{case}-narrow.png"
    with Opened(browser, page) as wide, Opened(browser, page, NARROW) as narrow:
        for opened in (wide, narrow):
            assert opened.complaints == []
            assert [url for url in opened.requests if url != opened.own and not url.startswith("data:")] == []
            for plot in ("accuracy", "loss", "signal"):
                drawn = opened.count(plot, "path.js-line"), opened.count(plot, "path.point")
                assert drawn == (1, 40), plot
            assert opened.count("epsilon", "path.js-line") == {"shares": 2, "records": 1, "open": 0}[case]
            assert opened.overflow() == 0
        wide.page.screenshot(path=picture, full_page=True)
        narrow.page.screenshot(path=small_picture, full_page=True)
    for path in (picture, small_picture):
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 50_000
    with capsys.disabled():
        print(f"\nthe report of {case}: {picture} and {small_picture}")


def test_a_value_that_is_not_finite_breaks_the_line(browser: Browser, tmp_path: Path) -> None:
    lines = metrics(10)
    del lines[4]["loss"]
    page = report.write(make(tmp_path / "run", terms(), lines))
    with Opened(browser, page) as opened:
        assert (opened.count("loss", "path.js-line"), opened.count("loss", "path.point")) == (2, 9)
        assert (opened.count("accuracy", "path.js-line"), opened.count("accuracy", "path.point")) == (1, 10)
        assert opened.complaints == []


def test_markup_from_the_folder_is_text(browser: Browser, tmp_path: Path) -> None:
    evil = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    page = report.write(
        make(tmp_path / "run", terms(), metrics(2), environment(name=evil, warnings=[evil]), f"# {evil}")
    )
    with Opened(browser, page) as opened:
        assert opened.page.evaluate("window.hacked") is None
        assert opened.page.inner_text("h1") == evil and opened.page.title().startswith(evil)
        statement = json.loads(opened.page.text_content("#onlooker-report") or "")
        assert statement["name"] == evil and statement["configuration"] == f"# {evil}"
        assert opened.complaints == []


def test_no_script_but_its_own_may_run(browser: Browser, tmp_path: Path) -> None:
    """Even if an escape failed: a script slipped into the file is refused by the page's own policy."""
    page = report.write(make(tmp_path / "run", terms(), metrics(2)))
    page.write_text(page.read_text("utf-8").replace("</main>", "<script>window.hacked = 1</script></main>"), "utf-8")
    with Opened(browser, page) as opened:
        assert opened.page.evaluate("window.hacked") is None
        assert any("Content Security Policy" in complaint for complaint in opened.complaints)


def test_wide_tables_scroll_in_their_own_box(browser: Browser, tmp_path: Path) -> None:
    page = report.write(make(tmp_path / "run", terms(), metrics(2)))
    with Opened(browser, page, NARROW) as opened:
        boxes = opened.page.eval_on_selector_all(".scroll", "boxes => boxes.map(b => [b.scrollWidth, b.clientWidth])")
        assert len(boxes) == 2 and all(inner > outer for inner, outer in boxes)
        assert opened.overflow() == 0


def test_no_table_scrolls_where_there_are_800_pixels(browser: Browser, tmp_path: Path) -> None:
    page = report.write(make(tmp_path / "run", terms(), metrics(2)))
    with Opened(browser, page, 800) as opened:
        boxes = opened.page.eval_on_selector_all(".scroll", "all => all.map(b => b.scrollWidth - b.clientWidth)")
        assert boxes == [0, 0] and opened.overflow() == 0


def test_dark_and_paper_change_the_colours_of_the_plots(browser: Browser, tmp_path: Path) -> None:
    page = report.write(make(tmp_path / "run", terms(), metrics(5)))
    with Opened(browser, page, color_scheme="dark") as opened:
        dark = opened.colours("epsilon")
        assert len(set(dark)) == 2
        opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        on_paper = opened.colours("epsilon")
        opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
        opened.page.emulate_media(color_scheme="light")
        opened.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert opened.colours("epsilon") == on_paper != dark
        assert opened.complaints == []


def test_labels_do_not_overlap(browser: Browser, tmp_path: Path) -> None:
    """The labels of each axis, of many rounds and many observers, and the legend, at both widths."""
    observers = ["public", "coordinator", "aux:0", "aux:1", *(f"client:{client}" for client in range(6))]
    page = report.write(make(tmp_path / "run", terms(rounds=300), metrics(300), environment(observers=observers)))
    for width in (WIDE, NARROW):
        with Opened(browser, page, width) as opened:
            for plot in ("accuracy", "loss", "epsilon", "signal"):
                for labels in (".xtick text", ".ytick text", ".legendtext"):
                    boxes = opened.page.eval_on_selector_all(
                        f"#{plot} {labels}",
                        "texts => texts.map(t => t.getBoundingClientRect())"
                        ".map(b => [b.left, b.top, b.right, b.bottom])",
                    )
                    assert boxes or labels == ".legendtext", (plot, labels)
                    assert not [pair for pair in _pairs(boxes) if _overlap(*pair)], (width, plot, labels)
            assert opened.complaints == []


@pytest.mark.parametrize("interval", [1, 5])
def test_groups_are_drawn_and_their_pairs_coloured(browser: Browser, tmp_path: Path, interval: int) -> None:
    """The map's three kinds of cell have colours of their own, and no table scrolls where there are 800 pixels."""
    rules = grouped_terms(rounds=10 // interval, interval=interval)
    env = environment(observers=["public", "coordinator", "client:0", "client:4"])
    page = report.write(make(tmp_path / "run", rules, personal_metrics(rules.rounds), env))
    for width in (WIDE, 800):
        with Opened(browser, page, width) as opened:
            assert opened.page.locator("#pairs .hm").count() == (3 if interval > 1 else 2)
            assert (opened.count("groups", "path.js-line"), opened.count("groups", "path.point")) == (2, 2 + 3)
            scales = opened.page.evaluate("document.getElementById('pairs').data.map(layer => layer.colorscale[1][1])")
            assert len(set(scales)) == len(scales) and all(scale.startswith("#") for scale in scales)
            boxes = opened.page.eval_on_selector_all(".scroll", "all => all.map(b => b.scrollWidth - b.clientWidth)")
            assert boxes == [0, 0, 0] and opened.overflow() == 0
            assert opened.count("own-accuracy", "path.js-line") == 3
            opened.page.hover("#pairs .nsewdrag", position={"x": 100, "y": 10})
            opened.page.wait_for_selector("#pairs .hoverlayer text")
            assert "client:0" in opened.page.text_content("#pairs .hoverlayer")
            assert opened.complaints == []


def test_a_thousand_clients_in_a_hundred_groups_are_one_page(browser: Browser, tmp_path: Path) -> None:
    rules = grouped_terms(structures.string(1000, 100, 1), rounds=20, period=2)
    env = environment(observers=["public", "client:0"])
    page = report.write(make(tmp_path / "run", rules, personal_metrics(20), env))
    with Opened(browser, page) as opened:
        assert opened.page.evaluate("document.getElementById('pairs').data[0].z.length") == 60
        assert opened.count("groups", "path.point") == 99 + 100
        assert opened.complaints == [] and opened.overflow() == 0
        assert "prices here are by Rényi's divergences alone" in opened.page.inner_text("#between")


def _pairs(boxes: list[list[float]]) -> Iterator[tuple[list[float], list[float]]]:
    return ((one, other) for place, one in enumerate(boxes) for other in boxes[place + 1 :])


def _overlap(one: list[float], other: list[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
