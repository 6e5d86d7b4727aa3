"""How large the report of a study is, how long it takes to write, and how soon it can be used in a browser.

The study is bcwd in full, 240 runs of 3,000 evaluations, unless a directory with results is given. A page can be used
when its controls answer and its first chart is drawn. Every time is of a fresh browser profile, reading the file from
the disk; the median counts. Beside it are the CPU time of the page's main thread until then, which does not depend on
what else the machine does, and the machine's load.

    python benchmarks/report.py [DIR] [--json FILE] [--quick]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import harness

from gradline.lab import report, run_study, studies, summary

TARGET_SIZE = 6_000_000
TARGET_SECONDS = 2.0

USABLE = """() => new Promise(resolve => {
  const chart = document.querySelector("article .chart");
  chart.scrollIntoView({ behavior: "instant" });
  const look = () => chart.data?.length && chart.querySelector(".main-svg")
    ? resolve({ drawn: performance.now(), ready: performance.getEntriesByName("ready")[0].startTime })
    : setTimeout(look, 5);
  look();
})"""
"""Milliseconds since navigation."""


def main() -> int:
    arguments = parse()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.directory or make(Path(temporary), quick=arguments.quick)
        results = measure(Path(directory), Path(temporary), quick=arguments.quick)
    show(results)
    if arguments.json:
        harness.write(arguments.json, harness.machine(), quick=arguments.quick, **results)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("directory", nargs="?", metavar="DIR", help="results of a study (default: bcwd is run)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here, too")
    parser.add_argument("--quick", action="store_true", help="a smoke run: its numbers mean nothing")
    return parser.parse_args()


def make(folder: Path, *, quick: bool) -> Path:
    study = studies.load("bcwd", seeds=1, budget=60) if quick else studies.load("bcwd")
    print("running bcwd", file=sys.stderr)
    run_study(study, folder / "study", workers=1 if quick else None)
    return folder / "study"


def measure(directory: Path, temporary: Path, *, quick: bool) -> dict[str, Any]:
    runs = summary(directory)
    results: dict[str, Any] = {"runs": len(runs), "evaluations": int(runs["evaluations"].sum())}
    for name in ("plain",) if quick else ("plain", "illustrated"):
        begin = time.perf_counter()
        page = report.write(directory, temporary / f"{name}.html", illustrations=name == "illustrated")
        results[name] = {"seconds_to_write": time.perf_counter() - begin, "bytes": page.stat().st_size}
        results[name] |= browse(page, repeats=1 if quick else 7)
    return results


def browse(page: Path, *, repeats: int) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        sys.exit("no Chromium is installed (Debian and Ubuntu: apt install chromium)")
    ready, drawn, load, busy = [], [], [], []
    with sync_playwright() as playwright:
        for _ in range(repeats):
            browser = playwright.chromium.launch(executable_path=found[0], args=["--no-sandbox"])
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            load.append(os.getloadavg()[0])
            meter = tab.context.new_cdp_session(tab)
            meter.send("Performance.enable", {"timeDomain": "threadTicks"})
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready=true]", state="attached")
            times = tab.evaluate(USABLE)
            ready.append(times["ready"] / 1000)
            drawn.append(times["drawn"] / 1000)
            metrics = {item["name"]: item["value"] for item in meter.send("Performance.getMetrics")["metrics"]}
            busy.append(metrics["TaskDuration"])
            version = browser.version
            browser.close()
    return {
        "seconds_to_ready": harness.quartiles(ready),
        "seconds_to_first_chart": harness.quartiles(drawn),
        "cpu_seconds_to_first_chart": harness.quartiles(busy),
        "load_average": harness.quartiles(load),
        "repeats": repeats,
        "chromium": version,
    }


def show(results: dict[str, Any]) -> None:
    print(f"{results['runs']} runs, {results['evaluations']:,} evaluations")
    for name in [name for name in ("plain", "illustrated") if name in results]:
        one = results[name]
        size, chart = one["bytes"], one["seconds_to_first_chart"]
        verdicts = ["pass" if good else "miss" for good in (size <= TARGET_SIZE, chart["median"] <= TARGET_SECONDS)]
        print(
            f"{name:12} {size / 1e6:5.2f} MB ({verdicts[0]} at {TARGET_SIZE / 1e6:.0f})   "
            f"written in {one['seconds_to_write']:.1f} s   "
            f"ready in {one['seconds_to_ready']['median']:.2f} s, first chart in {chart['median']:.2f} s "
            f"({chart['lower']:.2f} to {chart['upper']:.2f}; {verdicts[1]} at {TARGET_SECONDS:.0f})   "
            f"{one['cpu_seconds_to_first_chart']['median']:.2f} s of CPU time   "
            f"load {one['load_average']['median']:.1f} of {os.cpu_count()} cores"
        )


if __name__ == "__main__":
    sys.exit(main())
