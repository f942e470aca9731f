"""The table of overhead.py, and which of its targets hold."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

from benchmarks.dispatch.cases import CASES, LONG, REFERENCE
from benchmarks.dispatch.measurement import Measurement, fastest


def table(measured: Mapping[str, Sequence[Measurement]]) -> Table:
    """Return the table, as Markdown."""
    shown = Table(box=box.MARKDOWN)
    shown.add_column("case", no_wrap=True)
    columns = (
        "trials",
        "ms a trial",
        "of it search",
        "slowest turn",
        "x ours on Ray",
        "driver CPU ms",
        "MLflow CPU ms",
    )
    for column in (*columns, "start-up s", "driver peak MB"):
        shown.add_column(column, justify="right")
    reference = fastest(measured[REFERENCE]).milliseconds
    for name, several in measured.items():
        best = fastest(several)
        shown.add_row(
            CASES[name].title,
            f"{best.trials:,}",
            f"{best.milliseconds:,.2f}",
            f"{best.search_milliseconds:,.2f}" if best.tenths else "",
            f"{max(one.milliseconds for one in several):,.2f}",
            f"{best.milliseconds / reference:,.2f}",
            f"{1000 * best.driver_seconds / best.trials:,.2f}",
            f"{1000 * best.children_seconds / best.trials:,.2f}" if name.endswith("mlflow") else "",
            f"{best.startup_seconds:.1f}" if best.startup_seconds > 0.1 else "",
            f"{best.peak_bytes / 1e6:,.0f}",
        )
    return shown


def targets(measured: Mapping[str, Sequence[Measurement]]) -> list[str]:
    """Return one line per target: what is required, what was measured, and whether it is met."""
    milliseconds = {name: fastest(several).milliseconds for name, several in measured.items()}
    alone, tracked = milliseconds[REFERENCE], milliseconds["ray-mlflow"]
    peak = max(fastest(several).peak_bytes for name, several in measured.items() if name.startswith("ray")) / 1e6
    reuse, default = milliseconds["tune-reuse"] / alone, milliseconds["tune-default"] / alone
    rows = [
        ("ours on Ray with the record: at most 10 ms", f"{alone:.2f} ms", alone <= 10),
        ("... and MLflow: at most 25 ms", f"{tracked:.2f} ms", tracked <= 25),
        ("... and MLflow, the goal: at most 15 ms", f"{tracked:.2f} ms", tracked <= 15),
        ("at least 5 x faster than Tune with reused actors", f"{reuse:.1f} x", reuse >= 5),
        ("at least 100 x faster than Tune's default", f"{default:.0f} x", default >= 100),
        ("the driver's memory on Ray: under 500 MB", f"{peak:.0f} MB", peak < 500),
    ]
    if LONG in measured:
        # Of the search alone: work done once per study would hide a search that slows down.
        growth = fastest(measured[LONG]).search_milliseconds / fastest(measured[REFERENCE]).search_milliseconds
        rows.append(("10 x the trials: a trial at most 1.2 x dearer", f"{growth:.2f} x", growth <= 1.2))
    return [f"{'holds ' if holds else 'MISSED'}  {asked}: {found}" for asked, found, holds in rows]
