"""A study in a few lines, as text and as HTML: how many trials there are, and the winner."""

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hpo.study.study import PreparedStudy
from hpo.study.winner.choosing import why, why_none
from hpo.study.winner.verdict import Verdict
from hpo.trials.score_format import score_format, shown_value
from hpo.trials.space.space import short_text


@dataclass(frozen=True)
class Summary:
    """What is said of a study.

    Attributes:
        name, done: its name, and how many trials there are.
        best: the winner's metrics, and what has a limit, as text by name; empty where there is no winner.
        seeds: what follows them where fresh seeds chose the winner: that, and the values of the search; else empty.
        where: which trial that is, and why it was chosen; without a winner, why there is none, if limits are.
        point: its values of what was searched.
    """

    name: str
    done: str
    best: Mapping[str, str]
    seeds: str
    where: str
    point: Mapping[str, Any]

    @classmethod
    def of(cls, study: PreparedStudy, verdict: Verdict) -> Self:
        """Return that of a study."""
        goal, trials, winner = study.goal, verdict.history, verdict.winner
        name, done = study.config.study.name, f"{study.done(trials)}, {sum(t.state == 'failed' for t in trials)} failed"
        if winner is None or winner.score is None:
            return cls(name, done, {}, "", why_none(trials, goal) or "", {})
        by, in_search = verdict.fresh_winner or winner, dict[str, str]()
        best = dict[str, str]()
        for metric in goal.names:
            write = score_format([*(shown_value(trial, metric, goal) for trial in trials), by.mean(metric)])
            best[metric], in_search[metric] = write(by.mean(metric)), write(winner.mean(metric))
        where, seeds = f"trial {winner.number}{study.how_far(winner)}", ""
        if by is not winner:
            texts = [f"{name} {text}" for name, text in in_search.items()] if len(in_search) > 1 else in_search.values()
            seeds = f" on fresh seeds ({', '.join(texts)} in the search)"
        if len(goal.metrics) > 1:
            where += f": {why(study.config.study.choose)}, of {len(verdict.front)} on the front"
        return cls(name, done, best, seeds, where, winner.point)

    def as_lines(self) -> list[str]:
        """Return it as lines of text."""
        lines = [f"study {self.name}: {self.done}"]
        if not self.best:
            return [*lines, *([self.where] if self.where else [])]
        best = ", ".join(f"{metric} {value}" for metric, value in self.best.items())
        return [*lines, f"best: {best}{self.seeds}, {self.where}", f"  {short_text(self.point)}"]

    def as_html(self) -> str:
        """Return it as a notebook shows it."""
        lines = [f"<b>{html.escape(self.name)}</b>: {self.done}"]
        if not self.best:
            return "<br>".join([*lines, *([html.escape(self.where)] if self.where else [])])
        best = ", ".join(f"{html.escape(metric)} <b>{value}</b>" for metric, value in self.best.items())
        lines.append(f"best {best}{html.escape(self.seeds)}, {html.escape(self.where)}")
        texts = {key: f"{v:g}" if isinstance(v, float) else str(v) for key, v in self.point.items()}
        cells = [f"<tr><td>{html.escape(key)}</td><td>{html.escape(text)}</td></tr>" for key, text in texts.items()]
        return "<br>".join([*lines, f"<table>{''.join(cells)}</table>"])
