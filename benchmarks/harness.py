"""What the benchmarks share: a steady allocator, a description of the machine, and honest summaries."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

ALLOCATOR = {
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_MMAP_THRESHOLD_": str(2**25),  # the largest that every glibc accepts
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TOP_PAD_": str(2**26),
}
QUIET_PROFILER = {"KINETO_LOG_LEVEL": "6"}


def keep_memory() -> None:
    """Start this program anew, once, with an allocator that does not give memory back. Only glibc reads these."""
    settings = ALLOCATOR | QUIET_PROFILER
    if sys.platform == "linux" and any(os.environ.get(name) != value for name, value in settings.items()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | settings)


def quartiles(samples: Sequence[float]) -> dict[str, float] | None:
    if not samples:
        return None
    lower, median, upper = np.quantile(samples, (0.25, 0.5, 0.75)).tolist()
    return {"median": median, "lower": lower, "upper": upper}


def machine() -> dict[str, Any]:
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "clock": "CPU time" if torch.get_num_threads() == 1 else "wall time",
        "cores": os.cpu_count(),
        "cpu": cpu_model(),
        "allocator": {name: os.environ.get(name) for name in ALLOCATOR},
    }


def cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def header(about: dict[str, Any], quick: bool, ratio: str) -> str:
    """The lines above a table: the machine, and what the ratios are."""
    steady = all(about["allocator"].values())
    lines = [
        f"torch {about['torch']}, {about['threads']} of {about['cores']} cores, {about['clock']}, {about['cpu']}",
        "glibc's allocator keeps its memory (no trim, no mmap), so that page faults do not depend on the heap's layout"
        if steady
        else "the allocator is as the system has it",
        ratio,
    ]
    if quick:
        lines.append("a smoke run: its numbers mean nothing")
    return "\n".join(lines)


def report_progress(text: str) -> None:
    """Show what was done last, if somebody watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def write(file: Path, about: dict[str, Any], **results: Any) -> None:
    """The results as JSON, with the date and the machine."""
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    file.write_text(json.dumps({"date": date, "machine": about, **results}, indent=2) + "\n")
