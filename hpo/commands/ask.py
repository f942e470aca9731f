"""`ask` and `tell`: get trials that you train outside of hpo, and report their results."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from hpo.commands.arguments import Fields, StudyRef, Word, unique
from hpo.errors import ConfigError, printable

if TYPE_CHECKING:
    from hpo.commands.session import AskedTrial, Session

# Time to wait for other `ask` and `tell` commands, which hold the study for a second or two each.
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class OpenTrials(Fields):
    """The open trials of a study: the trials that `ask` has returned and that have no result yet.

    Attributes:
        study: the study's name.
        open: the open trials, each with the fields that `hpo ask --json` prints.
    """

    study: str
    open: Sequence["AskedTrial"]

    def __str__(self) -> str:
        return "\n".join(each.text for each in self.open) or "no trial is open"


@dataclass(frozen=True)
class Told(Fields):
    """The state of a trial after `tell`.

    Attributes:
        study: the study's name.
        trial: the trial's number.
        state: `running` if `tell` reported a point of the learning curve; else `complete`, `failed` or `stopped`.
        score: the value of the metric, or of the first metric if there are several; `null` = no score.
        error: the error of a failed trial; else `null`.
        should_stop: whether the median rule ends the training at the reported point of the learning curve; `null` = no
            point was reported.
    """

    study: str
    trial: int
    state: str
    score: float | None = None
    error: str | None = None
    should_stop: bool | None = None

    def __str__(self) -> str:
        if self.should_stop is not None:
            return "stop" if self.should_stop else "go on"
        result = self.error or ("" if self.score is None else f"{self.score:g}")
        return printable(f"trial {self.trial}: {self.state} {result}")


def ask(study: StudyRef, *, open_: bool = False) -> "AskedTrial | OpenTrials":
    """Get the next trial of a study whose trials are trained outside of hpo; exit code 1 if there is no trial now.

    Args:
        open_: list the trials that have no result yet, instead of getting a new trial.

    Raises:
        hpo.NoTrialError: the budget or the space is used up, or the strategy waits for the results of open trials.

    Examples:
        hpo search objective=outside study.name=lab study.metric=accuracy study.trials=40 \\
          'space.lr={low: 1e-5, high: 0.1, log: true}' space.layers=[2,4,8]       creates the study
        hpo ask lab                       a trial: its number, and the values to train with
        hpo ask lab --json                the same for programs, with the whole configuration
        hpo ask lab --open                the trials without a result yet
    """
    with _open_briefly(study) as session:
        if open_:
            return OpenTrials(session.name, session.open_trials)
        return session.ask()


def result_of(words: Sequence[str]) -> Any:
    """Return a result from the words of a command line: one number, or numbers by name; `-` reads JSON from stdin."""
    if list(words) == ["-"]:
        try:
            return json.load(sys.stdin)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"VALUE: standard input must be JSON, such as a number or an object: {error}") from error
    if len(words) == 1 and "=" not in words[0]:
        return _number(words[0], words[0])
    pairs = [text.partition("=") for text in words]
    given = " ".join(words)
    return unique(((name, _number(number, given)) for name, _, number in pairs), "VALUE")


def tell(
    study: StudyRef,
    trial: Annotated[int, Word("TRIAL")],
    values: Annotated[Any, Word("VALUE", collect=result_of)] = None,
    *,
    error: Annotated[str | None, Word("TEXT")] = None,
    step: Annotated[float | None, Word("N")] = None,
) -> Told:
    """Report the result of an open trial, or a point of its learning curve.

    Args:
        trial: the trial's number.
        values: the score, or NAME=NUMBER for each metric; '-' reads JSON from standard input.
        error: the error of a failed trial.
        step: report a point of the learning curve, at this epoch.

    Raises:
        hpo.HpoError: the trial is not open, a metric is missing, or the step is not larger than the previous step.
            Nothing was written.

    Examples:
        hpo tell lab 3 0.93                       the score
        hpo tell lab 3 accuracy=0.93 latency=12   metrics by name; seconds=... is the training time
        ./train --lr 0.01 | hpo tell lab 3 -      JSON from standard input: a number, a list, or an object
        hpo tell lab 3 --error "out of memory"    the trial failed
        hpo tell lab 3 --step 5 accuracy=0.71     a point of the learning curve; the answer is "go on" or "stop"
        hpo tell lab 3                            end the trial; study.score says which reported value counts
    """
    if step is not None and (error is not None or values is None):
        raise ConfigError(
            f"--step: adds a point to trial {trial}'s learning curve; give VALUE or NAME=NUMBER, and leave --error out"
        )
    with _open_briefly(study) as session:
        if step is None:
            return Told(session.name, trial, **session.tell(trial, values, error=error))
        running = session.open_trial(trial)
        running.report(values, step=int(step) if step.is_integer() else step)
        return Told(session.name, trial, "running", should_stop=running.should_stop)


def _open_briefly(study: StudyRef) -> "Session":
    """Open a study for one command, and print nothing. If another process has the study open, wait up to a minute."""
    from hpo.commands.session import Session
    from hpo.study.preparing.preparation import load_study

    return Session(load_study(str(study)), seconds=_PATIENCE_SECONDS, is_shown=False)


def _number(text: str, given: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"VALUE: must be a number, NAME=NUMBER for each metric, or '-', given {given!r}") from None
