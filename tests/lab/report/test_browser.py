"""The page in a real browser: every control, the keyboard, narrow and wide, dark and light, downloads and print."""

import csv
from collections import Counter

import numpy as np
import pytest

from gradline.lab.figures import FIGURES
from gradline.lab.figures.curves import TRAIN_ERROR, TRAIN_LOSS, cloud, rows_of
from gradline.lab.findings.reading import traces

FIRST = "article#figure_8"


class Watched:
    """A page and what it did: messages, errors, requests and dialogs."""

    def __init__(self, chromium, file, hash="", **options):
        self.troubles = []
        # Without reduced motion the page scrolls smoothly, and what the mouse is to hit is moving.
        still = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
        self.context = chromium.new_context(**{**still, **options})
        self.context.set_default_timeout(180_000)  # milliseconds; on a busy machine a page takes long to start
        self.page = page = self.context.new_page()
        page.on("console", lambda message: self.troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.troubles.append(f"dialog: {dialog.message}"))
        page.on("request", self._request)
        page.goto(file.as_uri() + hash)
        if options.get("java_script_enabled", True):
            page.wait_for_selector("html[data-ready=true]", state="attached")

    def _request(self, request):
        if not request.url.startswith(("file:", "blob:", "data:")):
            self.troubles.append(f"request: {request.url}")

    def drawn(self, article=FIRST):
        """What Plotly was given for a chart: its traces and layout."""
        self.page.locator(f"{article} .chart").scroll_into_view_if_needed()
        self.page.wait_for_selector(f"{article} .chart .main-svg", state="attached")
        return self.page.evaluate(
            "selector => { const gd = document.querySelector(selector); return {data: gd.data, layout: gd.layout}; }",
            f"{article} .chart",
        )

    def choose(self, name, text, article=FIRST):
        self.page.locator(f"{article} select[name={name}]").select_option(label=text)


@pytest.fixture
def look(chromium, page_file):
    """Open the page; at the end, see that nothing went wrong in it."""
    opened = []

    def opener(file=page_file, **options):
        opened.append(Watched(chromium, file, **options))
        return opened[-1]

    yield opener
    for watched in opened:
        watched.context.close()
    assert [trouble for watched in opened for trouble in watched.troubles] == []


AS_OPENED = """() => {
  for (const chart of report.charts) {
    if (!chart.zoom && fieldsOf(chart.form) === chart.initial) continue;
    chart.zoom = null;
    for (const _ of [1, 2]) {  // some fields have other options after the first
      setFields(chart.form, new URLSearchParams(chart.initial));
      chart.prepare();
    }
    if (chart.drawn) chart.draw();
  }
  for (const one of document.querySelectorAll("details")) one.open = false;
  history.replaceState(null, "", location.pathname);
  scrollTo(0, 0);
  return report.charts.every((chart) => fieldsOf(chart.form) === chart.initial);
}"""


@pytest.fixture(scope="module")
def opened(chromium, page_file):
    """The page, opened once: to open it takes far longer than most tests."""
    watched = Watched(chromium, page_file)
    yield watched
    watched.context.close()


@pytest.fixture
def watched(opened):
    """The page with all its choices as at first; at the end, see that nothing went wrong in it."""
    opened.page.mouse.move(0, 0)
    assert opened.page.evaluate(AS_OPENED)
    yield opened
    troubles, opened.troubles = opened.troubles, []
    assert troubles == []


def lines(drawn):
    """The middle lines of means that are shown: bands have no hover."""
    return [trace for trace in drawn["data"] if trace.get("hoverinfo") != "skip" and trace.get("visible", True) is True]


def numbers(values):
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def test_every_chart_is_drawn_when_it_comes_into_sight_and_fits_every_screen(look):
    watched = look(viewport={"width": 1440, "height": 800})
    articles = watched.page.eval_on_selector_all("article:has(.chart)", "all => all.map(one => one.id)")
    assert len(articles) >= 13
    last = f"article#{articles[-1]} .chart"
    assert watched.page.evaluate("s => document.querySelector(s).data === undefined", last), "it is drawn too early"
    for name in articles:
        drawn = watched.drawn(f"article#{name}")
        assert drawn["data"], name
        for trace in drawn["data"]:
            assert len(trace["y"]) == len(trace["x"]) > (name not in ("overview", "search")), name
            assert any(value is not None for value in trace["y"]), name
    assert watched.page.evaluate("location.hash") == "", "nothing was chosen"
    nothing_is_wider_than_the_screen(watched)


def test_means_are_those_of_the_figures(watched, store):
    data = FIGURES["figure_8"].data(store)
    for measure in (TRAIN_ERROR, TRAIN_LOSS):
        watched.choose("measure", measure.words)
        for problem, facet in (("bcwd-logr", "LogR"), ("bcwd-netpii", "NetPII")):
            watched.choose("facet", facet)
            shown = lines(watched.drawn())
            assert len(shown) == 4
            for trace in shown:
                method = {"GOLS-I": "gols-i", "PrLS": "prls"}[trace["name"]]
                size = {"x": 10, "x2": 50}[trace["xaxis"]]
                runs = [
                    run for run in data.runs if (run.problem, run.method, run.batch_size) == (problem, method, size)
                ]
                band = cloud(*rows_of(runs, measure), measure)
                np.testing.assert_array_equal(trace["x"], band.x)
                np.testing.assert_allclose(numbers(trace["y"]), band.middle, rtol=3e-3)


def test_all_runs_are_those_of_the_store(watched, store):
    watched.choose("look", "all runs")
    watched.choose("measure", "training loss")
    watched.choose("panel", "B = 10")
    drawn = watched.drawn()
    runs = {
        (run.method, run.seed): run.on_grid("train_loss")
        for run in traces(store)
        if (run.problem, run.batch_size, run.budget, run.sampling) == ("bcwd-logr", 10, 60, "dynamic")
        and not run.angled
    }
    assert len(drawn["data"]) == len(runs) == 4
    for trace in drawn["data"]:
        seed = int(trace["hovertemplate"].partition("seed ")[2].partition("<")[0])
        method = {"GOLS-I": "gols-i", "PrLS": "prls"}[trace["name"]]
        np.testing.assert_allclose(numbers(trace["y"]), runs[method, seed], rtol=3e-3)


@pytest.mark.slow
def test_scale_and_axis(watched):
    assert watched.drawn()["layout"]["yaxis"]["type"] == "log"
    watched.choose("scale", "linear")
    drawn = watched.drawn()
    assert drawn["layout"]["yaxis"]["type"] == "linear"
    watched.choose("axis", "iterations")
    drawn = watched.drawn()
    assert drawn["layout"]["xaxis"]["title"]["text"] == "iterations"
    assert max(lines(drawn)[0]["x"]) < 60, "iterations are fewer than evaluations"
    status = watched.page.locator("#figure_8-status")
    assert status.inner_text() == (
        "Shown: LogR, training error, mean and deviation, linear scale, against iterations; 8 runs."
    )


@pytest.mark.slow
def test_a_step_comes_with_its_axis(watched):
    watched.choose("measure", "step α")
    layout = watched.drawn()["layout"]
    assert (layout["xaxis"]["title"]["text"], layout["yaxis"]["title"]["text"]) == ("iterations", "step α")
    watched.choose("measure", "training error")
    assert watched.drawn()["layout"]["xaxis"]["title"]["text"] == "evaluations"


def test_lines_and_panels_can_be_chosen(watched):
    assert {trace["xaxis"] for trace in watched.drawn()["data"]} == {"x", "x2"}
    watched.choose("panel", "B = 50")
    assert {trace["xaxis"] for trace in watched.drawn()["data"]} == {"x"}
    watched.page.locator(f"{FIRST} input[name=line][value='0']").uncheck()
    assert {trace["name"] for trace in lines(watched.drawn())} == {"PrLS"}
    watched.page.locator(f"{FIRST} input[name=line][value='1']").uncheck()
    assert lines(watched.drawn()) == []
    assert watched.page.locator("#figure_8-status").inner_text() == "Nothing is chosen, so nothing is shown."


def test_a_choice_changes_a_chart_and_does_not_build_it_anew(watched):
    watched.drawn()
    watched.page.evaluate("document.querySelector('article#figure_8 .main-svg').dataset.kept = 'yes'")
    watched.choose("measure", "training loss")
    assert watched.drawn()["layout"]["yaxis"]["title"]["text"] == "training loss"
    watched.page.wait_for_timeout(200)
    assert watched.page.evaluate("document.querySelector('article#figure_8 .main-svg').dataset.kept") == "yes"


EVERY_OPTION = """article => {
  const shown = [];
  for (const select of article.querySelectorAll("select")) {
    if (!select.checkVisibility()) continue;
    const before = select.value;
    for (const option of [...select.options]) {
      select.value = option.value;
      select.dispatchEvent(new Event("change", { bubbles: true }));
      shown.push([select.name, option.text, article.querySelector(".chart").data.length]);
    }
    if ([...select.options].some((option) => option.value === before)) select.value = before;
    select.dispatchEvent(new Event("change", { bubbles: true }));
  }
  return shown;
}"""


@pytest.mark.slow
def test_every_control_of_every_chart_can_be_used(look):
    watched = look()
    page = watched.page
    for name in page.eval_on_selector_all("article:has(form)", "all => all.map(one => one.id)"):
        watched.drawn(f"article#{name}")
        article = page.locator(f"article#{name}")
        shown = article.evaluate(EVERY_OPTION)
        assert shown
        if name != "search":  # not every method has been run on every problem
            assert all(count for *_, count in shown), [item for item in shown if not item[-1]]
        for box in article.locator("input:visible").all():
            box.click()
        assert article.locator(".status").inner_text().endswith(".")


def test_lines_differ_in_more_than_colour(watched):
    looks = {trace["name"]: (trace["line"]["dash"], trace["marker"]["symbol"]) for trace in lines(watched.drawn())}
    assert len(set(looks.values())) == len(looks) == 2


RANGES = "['xaxis', 'yaxis'].map(name => document.querySelector('article#figure_8 .chart')._fullLayout[name].range)"
RESET = f"{FIRST} .modebar-btn[data-title='Reset zoom']"


@pytest.mark.parametrize(("motion", "scrolling"), [("reduce", "auto"), ("no-preference", "smooth")])
def test_it_scrolls_smoothly_unless_the_system_asks_for_less_motion(watched, motion, scrolling):
    watched.page.emulate_media(reduced_motion=motion)
    found = watched.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior")
    watched.page.emulate_media(reduced_motion="reduce")
    assert found == scrolling


@pytest.mark.parametrize("by", ["button", "double click"])
def test_zoom_by_mouse_and_reset_to_what_is_shown_now(watched, by):
    watched.drawn()
    watched.choose("measure", "step α")  # Plotly's own reset would go back to the range of the first measure
    before = watched.page.evaluate(RANGES)
    box = watched.page.locator(f"{FIRST} .chart .nsewdrag").first.bounding_box()
    watched.page.mouse.move(box["x"] + 30, box["y"] + 20)
    watched.page.mouse.down()
    watched.page.mouse.move(box["x"] + 100, box["y"] + 120, steps=5)
    watched.page.mouse.up()
    watched.page.wait_for_function("() => decodeURIComponent(location.hash).includes('figure_8.zoom=')")
    assert abs(watched.page.evaluate(RANGES)[0][1] - before[0][1]) > 1
    if by == "button":
        watched.page.locator(RESET).click()
    else:
        watched.page.locator(f"{FIRST} .chart .nsewdrag").first.dblclick()
    watched.page.wait_for_function("() => !location.hash.includes('zoom')")
    np.testing.assert_allclose(watched.page.evaluate(RANGES), before)


@pytest.mark.slow
def test_hovering_says_the_value(watched):
    watched.drawn()
    box = watched.page.locator(f"{FIRST} .chart .nsewdrag").first.bounding_box()
    for share in (0.3, 0.5, 0.7, 0.9):
        for height in np.linspace(0.05, 0.95, 19):
            watched.page.mouse.move(box["x"] + share * box["width"], box["y"] + height * box["height"])
            if watched.page.locator(f"{FIRST} .hoverlayer .hovertext").count():
                said = watched.page.locator(f"{FIRST} .hoverlayer .hovertext").first.text_content()
                assert "evaluations" in said
                assert "runs" in said
                return
    pytest.fail("no value is shown wherever the mouse is")


def test_the_keyboard_is_enough(look):
    watched = look()
    page = watched.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    page.locator(f"{FIRST} select[name=measure]").focus()
    page.keyboard.press("ArrowDown")
    assert watched.drawn()["layout"]["yaxis"]["title"]["text"] == "training loss"
    reached = set()
    before = page.evaluate(RANGES)
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.name || document.activeElement.className"))
        focused = page.evaluate("document.activeElement.dataset.title")
        if focused == "Zoom in":
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
            page.keyboard.press("Enter")
            page.wait_for_function("() => decodeURIComponent(location.hash).includes('figure_8.zoom=')")
            zoomed = page.evaluate(RANGES)
            assert zoomed[0][1] - zoomed[0][0] < before[0][1] - before[0][0]
        if focused == "Reset zoom":
            page.keyboard.press("Enter")
            break
    page.wait_for_function("() => !location.hash.includes('zoom')")
    np.testing.assert_allclose(page.evaluate(RANGES), before)
    assert {"panel", "look", "scale", "axis", "line", "control download"} <= reached


def nothing_is_wider_than_the_screen(watched):
    page = watched.page
    for width in (1440, 768, 420, 320):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(
            "width => [...document.querySelectorAll('.chart')].every(one => one.layout.width <= width)", arg=width
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        panels = {trace["yaxis"] for trace in watched.drawn()["data"]}
        left = page.evaluate("document.querySelector('article#figure_8 .chart')._fullLayout.xaxis2.domain[0]")
        assert panels == {"y", "y2"}
        assert (left == 0.0) == (width < 480), "on a phone panels are one below the other"


@pytest.mark.slow
def test_turning_a_phone(look):
    watched = look(viewport={"width": 320, "height": 640})
    watched.drawn()
    watched.page.set_viewport_size({"width": 640, "height": 320})
    watched.page.wait_for_function("() => document.querySelector('article#figure_8 .chart').layout.width > 320")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_and_can_be_changed(look, scheme):
    watched = look(color_scheme=scheme)

    def brightness(of):
        red, green, blue = (int(part) for part in of.strip("rgba()").split(",")[:3])
        return red + green + blue

    def seen():
        page = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        text = watched.drawn()["layout"]["font"]["color"].lstrip("#")
        ink = watched.drawn()["data"][2]["line"]["color"]
        return brightness(page), sum(bytes.fromhex(text)), ink

    before = seen()
    assert (before[0] > before[1]) == (scheme == "light")
    button = watched.page.locator("#theme")
    assert button.inner_text() == {"light": "Dark colours", "dark": "Light colours"}[scheme]
    button.click()
    after = seen()
    assert (after[0] > after[1]) == (scheme == "dark")
    assert before[2] != after[2]
    assert button.inner_text() == {"dark": "Dark colours", "light": "Light colours"}[scheme]


def download(watched, selector, folder):
    with watched.page.expect_download() as caught:
        watched.page.locator(selector).click()
    path = folder / caught.value.suggested_filename
    caught.value.save_as(path)
    with path.open(newline="", encoding="utf-8") as file:
        return path.name, list(csv.DictReader(file))


def test_the_data_of_a_chart_can_be_saved(watched, store, tmp_path):
    name, rows = download(watched, f"{FIRST} .download", tmp_path)
    assert name == "figure_8.csv"
    assert len(rows) == 24 * 61
    runs = {
        (run.problem, run.method, run.batch_size, run.seed): run
        for run in traces(store)
        if run.budget == 60 and run.sampling == "dynamic" and run.direction_batch_size is None and not run.angled
    }
    for row in rows[::97]:
        run = runs[row["problem"], row["method"], int(row["batch_size"]), int(row["seed"])]
        (place,) = np.flatnonzero(run.grid == float(row["evaluations"]))
        assert float(row["iterations"]) == run.on_grid("iterations")[place]
        for field in ("train_error", "train_loss", "test_error", "step"):
            value = float(row[field]) if row[field] else np.nan
            np.testing.assert_allclose(value, run.on_grid(field)[place], rtol=3e-3, err_msg=field)


@pytest.mark.slow
def test_tables_can_be_saved(watched, store, tmp_path):
    from gradline.lab import summary

    name, rows = download(watched, "#save-runs", tmp_path)
    assert name == "runs.csv"
    table = summary(store)
    assert len(rows) == len(table)
    assert [float(row["final_train_loss"]) for row in rows] == pytest.approx(list(table["final_train_loss"]))


@pytest.mark.slow
def test_print_has_all_charts_in_light_colours_and_no_controls(look):
    watched = look(color_scheme="dark")
    page = watched.page
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert page.evaluate("[...document.querySelectorAll('.chart')].every(one => one.data.length > 0)")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert watched.drawn()["layout"]["font"]["color"] == "#1d2129"
    assert watched.drawn()["layout"]["width"] <= 640
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for selector in ("nav", ".controls", "#theme", ".skip"):
        assert not page.locator(selector).first.is_visible()
    assert page.locator("article#figure_8 .chart").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert watched.drawn()["layout"]["font"]["color"] == "#e8eaee"


def test_nothing_can_leave_the_page(watched):
    blocked = watched.page.evaluate(
        "fetch('https://gradline.invalid/').then(() => 'sent', error => error.constructor.name)"
    )
    assert blocked == "TypeError"
    assert [text for text in watched.troubles if "Content Security Policy" in text], "it was not the policy"
    assert not [text for text in watched.troubles if text.startswith("request:")]
    watched.troubles.clear()


def test_without_scripts_the_tables_are_there(look):
    page = look(java_script_enabled=False).page
    assert page.get_by_text("Where scripts are switched off they stay away").is_visible()
    assert not page.locator(".controls").first.is_visible()
    assert page.locator(".numbers").first.is_visible()


@pytest.mark.slow
def test_an_old_browser_says_what_it_cannot_do(chromium, page_file):
    context = chromium.new_context()
    page = context.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(page_file.as_uri())
    page.wait_for_selector("#trouble:not([hidden])")
    assert "this browser is too old" in page.locator("#trouble").inner_text()
    context.close()


def test_names_are_only_names(look, tmp_path, monkeypatch):
    import re
    from dataclasses import replace

    from gradline.lab import report, run_study
    from gradline.lab.methods import METHODS, SearchMethod
    from gradline.lab.problems import PROBLEMS
    from gradline.lab.studies import Study
    from gradline.lab.tools import arguments as names

    monkeypatch.setattr(names, "PATTERN", re.compile(".+"))  # such names are refused, and would be harmless here
    hostile = "<img src=x onerror=alert(1)>"
    study = Study(
        name="mine",
        problems=(replace(PROBLEMS["bcwd-logr"], name="=1+1"),),
        methods=(SearchMethod(hostile, METHODS["gols-i"].search),),
        batch_sizes=(10,),
        seeds=(0, 1),
        budget=30,
    )
    run_study(study, tmp_path / "store", backend="inline")
    watched = look(report.write(tmp_path / "store", tmp_path / "page.html", illustrations=False))
    watched.drawn("article#other_runs")
    assert watched.page.locator("article#other_runs .legendtext").first.text_content() == hostile
    assert watched.page.locator("img").count() == 0
    _name, rows = download(watched, "article#other_runs .download", tmp_path)
    assert rows[0]["problem"] == "'=1+1", "a spreadsheet would compute it"


# ---- what is shown at once


def test_the_first_chart_marks_the_best_of_each_row(watched, store):
    *bars, ends = watched.drawn("article#overview")["data"]
    problems = watched.drawn("article#overview")["layout"]["yaxis"]["ticktext"]
    watched.choose("problem", "NetPI", "article#overview")
    drawn = watched.drawn("article#overview")
    *methods, best = drawn["data"]
    assert best["name"] == "best of the row"
    methods_of = Counter(round(place) for trace in methods for place in trace["y"])
    several = {row for row, count in methods_of.items() if count > 1}
    assert {round(place) for place in best["y"]} == several
    for x, y in zip(best["x"], best["y"], strict=True):
        row = [
            value
            for trace in methods
            for value, place in zip(trace["x"], trace["y"], strict=True)
            if round(place) == round(y)
        ]
        assert x == min(row)
    row = problems.index("NetPI")
    assert sum(bar["x"][row] for bar in bars) == pytest.approx(len(several))
    won = {bar["name"]: bar["x"][row] for bar in bars if bar["x"][row] > 0}
    for name, count in won.items():
        (trace,) = [trace for trace in methods if trace["name"] == name]
        assert count <= sum(place in best["y"] for place in trace["y"])
    most = [name for name, count in won.items() if count == max(won.values())]
    assert ends["text"][row] == f" ★ {', '.join(most) if len(most) < 3 else f'{len(most)} methods'}"
    tables = watched.page.locator("#overview .matrix")
    watched.page.locator("#overview summary").click()
    assert tables.first.is_visible()
    assert tables.first.locator(".best:visible").count() == len(best["x"])
    assert tables.first.locator("tbody tr:visible").count() == len(drawn["layout"]["yaxis"]["ticktext"])
    watched.choose("measure", "final test error", "article#overview")
    assert not tables.first.is_visible()
    assert tables.nth(2).is_visible()
    watched.choose("problem", "all", "article#overview")
    assert tables.nth(2).locator("tbody tr:visible").count() == tables.nth(2).locator("tbody tr").count()


@pytest.mark.slow
def test_claims_that_were_not_run_are_folded_away(chromium, tmp_path, look):
    from gradline.lab import report, run_study, studies

    run_study(studies.load("netpi-10", seeds=1, budget=30), tmp_path / "store", backend="inline")
    page = look(report.write(tmp_path / "store", tmp_path / "page.html", illustrations=False)).page
    folded = page.locator("#claims ~ details")
    assert "claims that no run here can decide" in folded.locator("summary").inner_text()
    assert not folded.locator("tbody tr").first.is_visible()
    assert page.locator("#claims ~ .scroll tbody tr").count() == 1
    folded.locator("summary").click()
    assert folded.locator("tbody tr").first.is_visible()


def test_networks_stand_side_by_side_on_one_scale(watched):
    watched.choose("facet", "all")
    watched.choose("panel", "B = 50")
    drawn = watched.drawn()
    assert [note["text"] for note in drawn["layout"]["annotations"]] == [
        "<b>LogR, B = 50</b>",
        "<b>NetPI, B = 50</b>",
        "<b>NetPII, B = 50</b>",
    ]
    assert {trace["yaxis"] for trace in lines(drawn)} == {"y", "y2", "y3"}
    assert drawn["layout"]["yaxis2"]["matches"] == drawn["layout"]["yaxis3"]["matches"] == "y"
    watched.choose("panel", "all")
    assert len(watched.drawn()["layout"]["annotations"]) == 6


@pytest.mark.parametrize("problem", ["all", "NetPI"])
def test_why_searches_ended_adds_up_and_costs_are_there(watched, problem):
    watched.choose("problem", problem, "article#endings")
    drawn = watched.drawn("article#endings")
    rows = len(drawn["layout"]["yaxis"]["ticktext"])
    total = sum(numbers(trace["x"]) for trace in drawn["data"])
    np.testing.assert_allclose(total, np.full(rows, 100.0), atol=0.1)
    looks = {(trace["marker"]["color"], trace["marker"]["pattern"]["shape"]) for trace in drawn["data"]}
    assert len(looks) == len(drawn["data"])
    watched.choose("measure", "evaluations in an iteration", "article#endings")
    mean, most = watched.drawn("article#endings")["data"]
    assert (numbers(mean["x"]) <= numbers(most["x"])).all()
    assert (numbers(mean["x"]) >= 1.0).all()


def test_one_search_can_be_opened_probe_by_probe(watched):
    article = watched.page.locator("article#search")
    watched.drawn("article#search")
    assert article.locator(".probes tbody tr").count() > 1
    assert article.locator(".probes").get_by_text("accepted").count() == 1
    assert "after" in article.locator(".status").inner_text()
    watched.page.locator("article#search select[name=number]").select_option(label="3")
    third = article.locator(".status").inner_text()
    article.get_by_role("button", name="Previous").click()
    article.get_by_role("button", name="Next").click()
    assert article.locator(".status").inner_text() == third
    watched.choose("method", "PrLS", "article#search")
    assert article.locator(".probes thead").inner_text().split() == ["Probe", "Step", "Slope", "Value"]


def test_tables_can_be_sorted(look):
    watched = look()
    table = watched.page.locator("#results-table")
    heads = table.locator("thead th").all_inner_texts()
    column = next(place for place, text in enumerate(heads) if text.startswith("Train loss"))

    def values():
        cells = table.locator(f"tbody tr > :nth-child({column + 1})")
        return cells.evaluate_all("all => all.map(one => Number(one.dataset.value))")

    before = values()
    button = table.locator("thead th").nth(column).get_by_role("button")
    button.click()
    assert values() == sorted(before) != before
    button.focus()
    watched.page.keyboard.press("Enter")
    assert values() == sorted(before, reverse=True)
    assert table.locator("thead th").nth(column).get_attribute("aria-sort") == "descending"


# ---- the view in the address


def test_a_link_leads_to_the_same_view(look, page_file):
    watched = look()
    watched.drawn()
    watched.choose("facet", "all")
    watched.choose("measure", "step α")
    watched.choose("scale", "linear")
    watched.choose("axis", "evaluations")
    watched.page.locator(f"{FIRST} input[name=line][value='1']").uncheck()
    watched.choose("measure", "final training error", "article#overview")
    watched.choose("batch", "B = 50", "article#search")
    watched.page.locator("article#search select[name=number]").select_option(label="4")
    watched.page.locator("#results-table thead th button").nth(4).click()
    watched.page.locator("#theme").click()
    watched.page.evaluate(
        "Plotly.relayout(document.querySelector('article#figure_8 .chart'), {'xaxis.range': [5, 20]})"
    )
    watched.page.wait_for_function("() => decodeURIComponent(location.hash).includes('figure_8.zoom=5,20')")
    status = watched.page.locator("#figure_8-status").inner_text()
    order = watched.page.locator("#results-table tbody").inner_text()

    other = look(hash=watched.page.evaluate("location.hash"))
    drawn = other.drawn()
    assert other.page.locator("#figure_8-status").inner_text() == status
    assert drawn["layout"]["yaxis"]["type"] == "linear"
    np.testing.assert_allclose(drawn["layout"]["xaxis"]["range"], [5, 20])
    assert {trace["name"] for trace in lines(drawn)} == {"GOLS-I"}
    other.drawn("article#overview")  # a chart is drawn, and its table chosen, when it comes into view
    other.page.locator("#overview summary").click()
    other.page.locator("#overview .matrix").nth(1).wait_for()  # visible
    assert other.page.locator("article#search select[name=batch] option:checked").inner_text() == "B = 50"
    assert other.page.locator("article#search select[name=number] option:checked").inner_text() == "4"
    assert other.page.locator("#results-table tbody").inner_text() == order
    assert other.page.locator("#theme").inner_text() == "Light colours"


def test_an_address_that_makes_no_sense_does_no_harm(look):
    watched = look(
        hash="#at=nothing&figure_8.measure=99&figure_8.zoom=a,b&figure_8.line=7&results-table.sort=99.up&theme=pink"
    )
    assert watched.drawn()["layout"]["yaxis"]["title"]["text"] == "training error"


# ---- the buttons and the legend of a chart


def test_no_button_sends_anything_to_a_server(watched):
    watched.drawn()
    titles = watched.page.eval_on_selector_all(
        ".modebar-btn", "all => [...new Set(all.map(one => one.dataset.title ?? one.getAttribute('aria-label')))]"
    )
    assert len(titles) == 6
    assert not [title for title in titles if any(word in title for word in ("hare", "loud", "end ", "tudio"))]
    kept = watched.page.evaluate(
        "(({showSendToCloud, plotlyServerURL}) => [showSendToCloud, plotlyServerURL])"
        "(document.querySelector('article#figure_8 .chart')._context)"
    )
    assert kept == [False, ""]


@pytest.mark.slow
@pytest.mark.parametrize("width", [420, 1280])
def test_the_buttons_are_not_over_titles(request, width):
    wide = width == 1280  # as the page that other tests share
    watched = request.getfixturevalue("watched" if wide else "look")
    watched = watched if wide else watched(viewport={"width": width, "height": 900})
    for article in ("article#figure_8", "article#overview", "article#search"):
        watched.drawn(article)
        watched.page.locator(f"{article} .chart").hover()
        bar = watched.page.locator(f"{article} .modebar").bounding_box()
        for text in watched.page.locator(
            f"{article} .annotation-text, {article} .ytick text, {article} .nsewdrag"
        ).all():
            box = text.bounding_box()
            apart = (
                box["y"] >= bar["y"] + bar["height"]
                or box["x"] >= bar["x"] + bar["width"]
                or box["x"] + box["width"] <= bar["x"]
            )
            assert apart, (article, text.text_content())


@pytest.mark.slow
def test_the_title_of_an_axis_is_below_its_ticks_and_above_the_legend(look):
    watched = look()
    watched.drawn("article#overview")
    watched.page.evaluate(
        """() => {  // a legend of many rows beside a long name of a setting, which leaves it little width
            const chart = report.charts.find((one) => one.id === "overview");
            chart.problem = chart.data.problems[0];
            chart.data.short[0] = "B = 100, dynamic, direction of 400, with repetition, 3,000 evaluations";
            for (let place = 0; place < 21; place += 1) {
                chart.data.methods.push({ ...chart.data.methods[0], label: `another method ${place}` });
                for (const measure of chart.data.measures) for (const line of measure.cells) line.push(line[0]);
            }
            chart.draw();
        }"""
    )
    chart = watched.page.locator("article#overview .chart")
    for width in (1280, 420):
        watched.page.set_viewport_size({"width": width, "height": 900})
        watched.page.wait_for_function(
            "width => document.querySelector('article#overview .chart').layout.width <= width", arg=width
        )
        title, ticks, legend = (
            chart.locator(part).first.bounding_box() for part in (".g-xtitle", ".xaxislayer-above", "g.legend")
        )
        assert ticks["y"] + ticks["height"] <= title["y"]
        assert title["y"] + title["height"] <= legend["y"]
        card, drawing = watched.page.locator("article#overview").bounding_box(), chart.locator(".main-svg").first
        for part in (drawing, chart.locator(".modebar")):
            box = part.bounding_box()
            assert card["x"] <= box["x"]
            assert box["x"] + box["width"] <= card["x"] + card["width"]


def test_the_legend_and_the_check_boxes_agree(watched):
    watched.drawn()

    def shows(*names):
        """Return whether these lines alone are checked and drawn, once Plotly has waited for a second click."""
        boxes = """all => all.filter(one => one.checked).map(one => one.parentElement.innerText.trim())"""
        for _ in range(100):
            checked = watched.page.eval_on_selector_all(f"{FIRST} input[name=line]", boxes)
            if checked == list(names) and {trace["name"] for trace in lines(watched.drawn())} == set(names):
                return True
            watched.page.wait_for_timeout(100)
        return False

    assert shows("GOLS-I", "PrLS")
    legend = watched.page.locator(f"{FIRST} .legendtoggle")
    assert legend.count() == 2
    box = watched.page.locator(f"{FIRST} input[name=line][value='0']")
    box.uncheck()
    assert shows("PrLS")
    assert legend.count() == 2, "what is not shown can be brought back"
    box.check()
    assert shows("GOLS-I", "PrLS")
    for chosen, checked in ((legend.first, ["PrLS"]), (legend.first, ["GOLS-I", "PrLS"]), (legend.nth(1), ["GOLS-I"])):
        chosen.click()
        assert shows(*checked)
    legend.nth(1).dblclick()
    assert shows("PrLS"), "two clicks show a line alone"


# ---- narrow pages and dark ones


CUT = """article => {
  const frame = article.querySelector(".chart").getBoundingClientRect();
  const names = [".legendtext", ".xtitle", ".ytitle", ".ytick text", ".annotation-text"];
  const texts = names.map((name) => `.chart ${name}`);
  const cut = (box) => box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
  return [...article.querySelectorAll(texts.join())]
    .map((text) => [text.textContent, text.getBoundingClientRect()])
    .filter(([, box]) => box.width && cut(box))
    .map(([text]) => text);
}"""


@pytest.mark.slow
def test_nothing_of_a_chart_is_cut_on_a_phone(look):
    watched = look(viewport={"width": 420, "height": 800})
    for name in watched.page.eval_on_selector_all("article:has(.chart)", "all => all.map(one => one.id)"):
        drawn = watched.drawn(f"article#{name}")
        assert watched.page.locator(f"article#{name}").evaluate(CUT) == [], name
        if name in ("overview", "endings"):
            assert drawn["layout"]["height"] < 1000, "a summary is not many screens high"
            watched.choose("problem", "NetPI", f"article#{name}")
            for measure in watched.page.locator(f"article#{name} select[name=measure] option").all_inner_texts():
                watched.choose("measure", measure, f"article#{name}")
                assert watched.page.locator(f"article#{name}").evaluate(CUT) == [], (name, measure)


@pytest.mark.slow
def test_illustrations_are_dark_on_a_dark_page(look, one_run, tmp_path, monkeypatch):
    from gradline.lab import report
    from gradline.lab.report import page

    results = {name: figure for name, figure in FIGURES.items() if figure.needs}
    monkeypatch.setattr(page, "FIGURES", {"figure_4": FIGURES["figure_4"], **results})
    file = report.write(one_run, tmp_path / "page.html")
    for scheme in ("light", "dark"):
        watched = look(file, color_scheme=scheme)
        watched.page.locator("#figure_4").scroll_into_view_if_needed()
        shown = watched.page.locator("#figure_4 img:visible")
        assert shown.evaluate_all("all => all.map(one => one.className)") == [scheme]
        watched.page.locator("#theme").click()
        assert shown.evaluate_all("all => all.map(one => one.className)") == [
            {"light": "dark", "dark": "light"}[scheme]
        ]
