"""The content of a study's page: texts and the report's figures, each rendered again when its data has changed."""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from hpo.errors import HpoError, first_line
from hpo.report.figures import FIGURES, Drawing, Drawn, draw_figures, missing_figures
from hpo.report.figures.style import figure_content, new_figure
from hpo.report.formatting import sentence
from hpo.report.pages.html import render, render_macro
from hpo.show.page import texts
from hpo.show.page.reading import LiveStudy, PageReader
from hpo.study.files.folder import StudyFolder
from hpo.trials.goal import goal_of

Content = Mapping[str, Any]
"""The content of a part of a page.

The content of a text has only the key `html`. The content of a figure has two keys: `figure`, and `says` with the
caption. If the study has too little data for the figure, `figure` is None, and `says` has the reason. If rendering a
text or figure raises an error, the content has only the key `html`, with the error's text.
"""

# The drawing order: quick figures first. Figures about a whole search are only in its report.
_FIRST, _LAST, _REPORT_ONLY = ("best-so-far", "learning-curves"), ("importance",), ("expected-performance",)
_ORDER = (*_FIRST, *(name for name in FIGURES if name not in (*_FIRST, *_LAST)), *_LAST)
# A planned timeline would need the objective, whose code a viewer does not run.
_OMITTED = {*_REPORT_ONLY, "planned-timeline"}

# The share of the machine's processors that a part may use while a search runs. On two processors a figure that takes
# 0.05 s (about 100 trials) is drawn again after 6 s if it is one of the first, else after 17 s. On 32 processors it is
# drawn at each change.
_SHARE_OF_FIRST, _SHARE = 0.004, 0.0015
_LONGEST_LOOK, _LONGEST_FIRST_WAIT = 2.0, 10.0

# For each text, the function that makes it, and the sources that it depends on.
_TEXTS: Mapping[str, tuple[Callable[[LiveStudy], Mapping[str, Any]], set[str]]] = {
    "state": (lambda seen: texts.state(seen.view), {"status", "record"}),
    "workers": (lambda seen: texts.workers(seen.view, seen.workers), {"status", "tasks"}),
    "trials": (lambda seen: texts.trials(seen.view, seen.subject), {"record"}),
    "failures": (lambda seen: texts.failures(seen.view), {"record"}),
    "cautions": (lambda seen: {"texts": seen.view.cautions}, {"record", "status"}),
}


class StudyContent:
    """The parts of one study's page."""

    def __init__(self, folder: StudyFolder) -> None:
        self._folder, self._reader = folder, PageReader(folder)
        self._drawings = {drawing.name: drawing for drawing in _planned(folder)}
        # For each part, in the order of rendering, the sources that it depends on.
        self._sources = {name: of for name, (_, of) in _TEXTS.items()}
        self._sources |= {name: {"record"} for name in _ORDER if name in self._drawings}
        if "learning-curves" in self._sources:
            self._sources["learning-curves"] = {"record", "tasks"}
        self._live: LiveStudy | None = None
        self._drawing_began = False
        self._stale: set[str] = set()
        self._not_before: dict[str, float] = {}
        self.is_over = False

    def refresh(self, wanted: Collection[str] | None = None) -> Iterator[tuple[str, Content]]:
        """Yield the parts whose sources have changed, rendered again.

        The texts come first. After two seconds, leave all further parts for the next call. While a search runs, yield
        only texts, the first figure and the figures in `wanted` (None = all figures). The more time a part takes,
        the less often it is rendered.
        """
        live, end = self._read(), time.monotonic() + _LONGEST_LOOK
        if not self._drawing_began:
            new_figure()  # loads plotly, so that its import does not count as time of the first figure
            self._drawing_began = True
        self._stale |= {name for name, of in self._sources.items() if of & live.changed}
        for name in self._sources:
            now = time.monotonic()
            is_visible = wanted is None or name in wanted or name not in self._drawings or name == _FIRST[0]
            is_due = now < end and (live.is_over or (is_visible and now >= self._not_before.get(name, 0.0)))
            if name in self._stale and is_due:
                began = time.thread_time()
                yield name, self._render(name, live)
                is_first = name in _FIRST or name not in self._drawings
                self._postpone(name, time.thread_time() - began, _SHARE_OF_FIRST if is_first else _SHARE)
                self._stale.discard(name)
        self.is_over = live.is_over and not self._stale

    def _read(self) -> LiveStudy:
        """Read and return the study's state. Between two readings, return the last state that was read.

        The time between two readings of a running search is proportional to the duration of a reading.
        """
        before = self._live
        if before is not None and not before.is_over and time.monotonic() < self._not_before["reading"]:
            return replace(before, changed=frozenset())
        began = time.thread_time()
        self._live = self._reader.read()
        self._postpone("reading", time.thread_time() - began, _SHARE_OF_FIRST)
        return self._live

    def _postpone(self, name: str, took: float, share: float) -> None:
        wait = took / share / (os.cpu_count() or 1)
        # The first reading takes longer, because it reads everything and imports modules.
        wait = wait if name in self._not_before else min(wait, _LONGEST_FIRST_WAIT)
        self._not_before[name] = time.monotonic() + wait

    def page(self, version: int, html: Mapping[str, Any]) -> str:
        """Return the whole page; `html` maps the name of each text on the page to the HTML of this text."""
        pictures = groupby(self._drawings.values(), key=lambda drawing: drawing.section)
        return render(
            "live.html",
            name=self._folder.path.name,
            version=version,
            html={name: html.get(name, "") for name in _TEXTS},
            pictures=[(section, list(group)) for section, group in pictures],
            has_front="front" in self._drawings,
            sentence=sentence,
        )

    def _render(self, name: str, live: LiveStudy) -> Content:
        """Return a rendered part; if rendering fails, return the reason, such as a damaged file."""
        try:
            if name in _TEXTS:
                return {"html": render_macro("live_parts.html", name, **_TEXTS[name][0](live))}
            return self._figure(name, live)
        except Exception as error:  # noqa: BLE001  # The other parts must still appear.
            why = f"{type(error).__name__}: {first_line(error)}"
            return {"html": render_macro("live_parts.html", "failed", why=why)}

    def _figure(self, name: str, live: LiveStudy) -> Content:
        if live.subject is not None:
            (self._drawings[name],) = draw_figures(live.subject, [name])
        content = self._drawings[name].content
        if isinstance(content, Drawn):
            return {"figure": figure_content(content.figure), "says": content.caption}
        return {"figure": None, "says": sentence(content["missing"])}


def _planned(folder: StudyFolder) -> tuple[Drawing, ...]:
    """Return placeholders for the figures of a study's page; none if the study's configuration is unreadable."""
    try:
        goal = goal_of(folder.config().study)
    except HpoError:
        return ()
    return tuple(drawing for drawing in missing_figures(goal, "drawing the figure") if drawing.name not in _OMITTED)
