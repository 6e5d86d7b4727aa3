"""The page in a real browser: every control, the keyboard, narrow and wide, dark and light, downloads and print."""

import csv

import numpy as np
import pytest

from gradline.lab.figures import figure_8
from gradline.lab.figures.curves import TRAIN_ERROR, TRAIN_LOSS, cloud
from gradline.lab.figures.traces import traces

FIRST = "article#figure_8"


class Watched:
    """A page and what it did: messages, errors, requests and dialogs."""

    def __init__(self, chromium, file, **options):
        self.troubles = []
        self.context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = page = self.context.new_page()
        page.on("console", lambda message: self.troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.troubles.append(f"dialog: {dialog.message}"))
        page.on("request", self._request)
        page.goto(file.as_uri())
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

    def choose(self, name, value, article=FIRST):
        field = self.page.locator(f"{article} select[name={name}]")
        field.select_option(value)

    def tick(self, name, value, article=FIRST):
        self.page.locator(f"{article} input[name={name}][value='{value}']").check()


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


def lines(drawn):
    """The middle lines of means: bands have no hover."""
    return [trace for trace in drawn["data"] if trace.get("hoverinfo") != "skip"]


def numbers(values):
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def test_every_chart_is_drawn_when_it_comes_into_sight(look):
    watched = look()
    articles = watched.page.eval_on_selector_all("article:has(.chart)", "all => all.map(one => one.id)")
    assert len(articles) >= 11
    last = f"article#{articles[-1]} .chart"
    assert watched.page.evaluate("s => document.querySelector(s).data === undefined", last), "it is drawn too early"
    for name in articles:
        drawn = watched.drawn(f"article#{name}")
        assert drawn["data"], name
        for trace in drawn["data"]:
            values = trace["z"][0] if trace["type"] == "heatmap" else trace["y"]
            assert len(values) == len(trace["x"]) > 1, name
            assert any(value is not None for value in values), name


def test_means_are_those_of_the_figures(look, store):
    watched = look()
    data = figure_8.data(store)
    for measure, place in ((TRAIN_ERROR, "0"), (TRAIN_LOSS, "1")):
        watched.choose("measure", place)
        for problem, facet in (("bcwd-logr", "0"), ("bcwd-netpii", "2")):
            watched.choose("facet", facet)
            shown = lines(watched.drawn())
            assert len(shown) == 4
            for trace in shown:
                method = {"GOLS-I": "gols-i", "PrLS": "prls"}[trace["name"]]
                size = {"x": 10, "x2": 50}[trace["xaxis"]]
                (curve,) = data.of(measure=measure.name, problem=problem, method=method, batch_size=size)
                band = cloud(curve, measure)
                np.testing.assert_array_equal(trace["x"], band.x)
                np.testing.assert_allclose(numbers(trace["y"]), band.middle, rtol=3e-3)


def test_all_runs_are_those_of_the_store(look, store):
    watched = look()
    watched.tick("look", "runs")
    watched.choose("measure", "1")
    watched.choose("panel", "0")
    drawn = watched.drawn()
    runs = {
        (run.method, run.seed): run.values["train_loss"]
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
def test_scale_and_axis(look):
    watched = look()
    assert watched.drawn()["layout"]["yaxis"]["type"] == "log"
    watched.tick("scale", "linear")
    drawn = watched.drawn()
    assert drawn["layout"]["yaxis"]["type"] == "linear"
    watched.tick("axis", "iterations")
    drawn = watched.drawn()
    assert drawn["layout"]["xaxis"]["title"]["text"] == "iterations"
    assert max(lines(drawn)[0]["x"]) < 60, "iterations are fewer than evaluations"
    status = watched.page.locator("#figure_8-status")
    assert status.inner_text() == (
        "Shown: LogR, training error, mean and one standard deviation, linear scale, against iterations; 8 runs."
    )


@pytest.mark.slow
def test_a_step_comes_with_its_axis(look):
    watched = look()
    watched.choose("measure", "3")
    layout = watched.drawn()["layout"]
    assert (layout["xaxis"]["title"]["text"], layout["yaxis"]["title"]["text"]) == ("iterations", "step α")
    watched.choose("measure", "0")
    assert watched.drawn()["layout"]["xaxis"]["title"]["text"] == "evaluations"


def test_lines_and_panels_can_be_chosen(look):
    watched = look()
    assert {trace["xaxis"] for trace in watched.drawn()["data"]} == {"x", "x2"}
    watched.choose("panel", "1")
    assert {trace["xaxis"] for trace in watched.drawn()["data"]} == {"x"}
    watched.page.locator(f"{FIRST} input[name=line][value='0']").uncheck()
    assert {trace["name"] for trace in lines(watched.drawn())} == {"PrLS"}
    watched.page.locator(f"{FIRST} input[name=line][value='1']").uncheck()
    assert watched.drawn()["data"] == []
    assert watched.page.locator("#figure_8-status").inner_text() == "Nothing is chosen, so nothing is shown."


EVERY_OPTION = """article => {
  const shown = [];
  for (const select of article.querySelectorAll("select")) {
    if (!select.checkVisibility()) continue;
    for (const option of [...select.options]) {
      select.value = option.value;
      select.dispatchEvent(new Event("change", { bubbles: true }));
      shown.push([select.name, option.text, article.querySelector(".chart").data.length]);
    }
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
        assert all(count for *_, count in shown), [item for item in shown if not item[-1]]
        for box in article.locator("input:visible").all():
            box.click()
        assert article.locator(".status").inner_text().endswith(".")
        article.locator(".reset").click()
        assert article.locator(".status").inner_text() == "All of it is shown."


def test_lines_differ_in_more_than_colour(look):
    looks = {trace["name"]: (trace["line"]["dash"], trace["marker"]["symbol"]) for trace in lines(look().drawn())}
    assert len(set(looks.values())) == len(looks) == 2


@pytest.mark.slow
def test_zoom_by_mouse_and_reset(look):
    watched = look()
    before = watched.drawn()["layout"]["xaxis"]["range"]
    box = watched.page.locator(f"{FIRST} .chart .nsewdrag").first.bounding_box()
    watched.page.mouse.move(box["x"] + 30, box["y"] + 20)
    watched.page.mouse.down()
    watched.page.mouse.move(box["x"] + 100, box["y"] + 120, steps=5)
    watched.page.mouse.up()
    watched.page.wait_for_function(
        "before => Math.abs(document.querySelector('article#figure_8 .chart').layout.xaxis.range[1] - before) > 1",
        arg=before[1],
    )
    watched.page.locator(f"{FIRST} .reset").click()
    np.testing.assert_allclose(watched.drawn()["layout"]["xaxis"]["range"], before)


@pytest.mark.slow
def test_hovering_says_the_value(look):
    watched = look()
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
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.name || document.activeElement.className"))
        if "chart" in str(page.evaluate("document.activeElement.className")):
            break
    assert {"panel", "look", "scale", "axis", "line", "control reset", "control download"} <= reached
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    before = watched.drawn()["layout"]["xaxis"]["range"]
    page.keyboard.press("+")
    zoomed = watched.drawn()["layout"]["xaxis"]["range"]
    assert zoomed[1] - zoomed[0] < before[1] - before[0]
    page.keyboard.press("ArrowRight")
    assert watched.drawn()["layout"]["xaxis"]["range"][0] > zoomed[0]
    page.keyboard.press("0")
    np.testing.assert_allclose(watched.drawn()["layout"]["xaxis"]["range"], before)


@pytest.mark.parametrize("width", [320, 768, 1440])
def test_nothing_is_wider_than_the_screen(look, width):
    watched = look(viewport={"width": width, "height": 800})
    for article in watched.page.eval_on_selector_all("article:has(.chart)", "all => all.map(one => one.id)"):
        drawn = watched.drawn(f"article#{article}")
        assert drawn["layout"]["width"] <= width
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    panels = {trace["yaxis"] for trace in watched.drawn()["data"]}
    left = watched.page.evaluate("document.querySelector('article#figure_8 .chart').layout.xaxis2.domain[0]")
    assert panels == {"y", "y2"}
    assert (left == 0.0) == (width == 320), "on a phone panels are one below the other"


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


def test_the_data_of_a_chart_can_be_saved(look, store, tmp_path):
    watched = look()
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
        (place,) = np.flatnonzero(run.evaluations == float(row["evaluations"]))
        assert float(row["iterations"]) == run.iterations[place]
        for field in ("train_error", "train_loss", "test_error", "step"):
            value = float(row[field]) if row[field] else np.nan
            np.testing.assert_allclose(value, run.values[field][place], rtol=3e-3, err_msg=field)


@pytest.mark.slow
def test_tables_can_be_saved(look, store, tmp_path):
    from gradline.lab import summary

    watched = look()
    name, rows = download(watched, "[data-table=results]", tmp_path)
    assert name == "runs.csv"
    table = summary(store)
    assert len(rows) == len(table)
    assert [float(row["final_train_loss"]) for row in rows] == pytest.approx(list(table["final_train_loss"]))
    name, rows = download(watched, "[data-table=table_3]", tmp_path)
    assert [row["method"] for row in rows] == ["gols-i", "prls"]
    name, rows = download(watched, "#study_direction_vs_step .download", tmp_path)
    assert len(rows) == 8
    assert all(float(row["train_loss"]) > 0 for row in rows)


@pytest.mark.slow
def test_print_has_all_charts_in_light_colours_and_no_controls(look):
    watched = look(color_scheme="dark")
    page = watched.page
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert page.evaluate("[...document.querySelectorAll('.chart')].every(one => one.data.length > 0)")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert watched.drawn()["layout"]["font"]["color"] == "#000000"
    assert watched.drawn()["layout"]["width"] <= 640
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for selector in ("nav", ".controls", "#theme", ".skip"):
        assert not page.locator(selector).first.is_visible()
    assert page.locator("article#figure_8 .chart").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert watched.drawn()["layout"]["font"]["color"] != "#000000"


def test_nothing_can_leave_the_page(look):
    watched = look()
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
    from gradline.lab.tools import names

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
