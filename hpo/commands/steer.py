"""`stop`, `add`, `retry`, a larger budget, and `note`: user actions on a search, even while the search is running.

Two actions are not written to the study's record: `stop --now`, which is a signal, and `note`, which does not change
the search. Every other action is written to the record before the action takes effect, with its time on the study's
clock. So the report lists these actions, and `hpo resume` repeats them. A replay repeats only added points, retries and
the stops of single trials.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from hpo.commands.arguments import Fields, Point, StudyRef, Tags, Word, refuse_without_effect
from hpo.config.study_config import StudyConfig
from hpo.errors import StudyError, printable
from hpo.machine import user_name
from hpo.study.files.folder import StudyFolder, find_study
from hpo.study.files.requests import is_searching, request
from hpo.study.files.user_notes import UserNote, add_note, read_notes, tags
from hpo.study.view.latest import latest_status
from hpo.trials.record.user_actions import AddedPoint

# The keys of `study` that may change while the search runs, because its trials do not depend on the budget.
BUDGET = ("trials", "minutes")


@dataclass(frozen=True)
class Answer(Fields):
    """The answer of a search to a user action.

    Attributes:
        study: the study, as the user named it.
        says: the answer as text.
        trial: the number of the stopped or retried trial; `null` = the action was not for a single trial.
        point: the point that the user gave to `add`; else `null`.
    """

    study: str
    says: str
    trial: int | None = None
    point: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"study {self.study}: {self.says}"


def stop(
    study: StudyRef, trial: Annotated[int | None, Word("NUMBER", option="--trial")] = None, *, now: bool = False
) -> Answer:
    """End a running search at once or after its running trials have ended, or stop one of its trials.

    Args:
        trial: stop only this trial.
        now: do not wait for the running trials.

    Raises:
        hpo.HpoError: the study or the trial is not running.

    Examples:
        hpo stop digits               start no new trial; end when the running trials have ended
        hpo stop digits --now         as Ctrl-C: save states; `hpo resume` continues the unfinished trials
        hpo stop digits --trial 7     stop only this trial; it cannot win, and the search continues
    """
    folder = find_study(str(study))
    holder = folder.holder()
    if holder is None:
        raise StudyError(f"study: {folder} is not running, so there is nothing to stop")
    if trial is not None:
        refuse_without_effect({"now": now}, "for a single trial, which always stops immediately")
    if now and not (holder.is_here and holder.process):
        raise StudyError(f"now: {holder} is on another machine; run this command there, or leave out `now`")
    if now:
        assert holder.process is not None
        try:
            os.kill(holder.process, signal.SIGINT)
        except PermissionError as error:
            raise StudyError(f"now: {holder} belongs to another user; ask that user to stop the study") from error
        except ProcessLookupError as error:
            raise StudyError(f"study: {folder} is not running, so there is nothing to stop") from error
        return Answer(str(study), f"sent a stop signal to {holder}, which saves its results", trial)
    _refuse_past_search(folder, "stopped")
    return Answer(str(study), request(folder, "stop", {} if trial is None else {"trial": trial}), trial)


def add(study: StudyRef, point: Point) -> Answer:
    """Add a point of your own to a running or stopped search, as its next new trial.

    The search first trains the trials that it has already planned, at most `study.lanes`.

    Args:
        point: values of searched hyperparameters, by dotted key; the other hyperparameters get their defaults.

    Raises:
        hpo.HpoError: the point is outside of the space, was tried or added before, or the search has just ended. A
            point whose last trial failed may be added again.

    Examples:
        hpo add digits model.dropout=0.2 model.num_layers=2
        hpo add digits 'model={d_model: 64, num_heads: 4}'
    """
    folder = find_study(str(study))
    if folder.holder() is not None:
        _refuse_past_search(folder, "added")
        return Answer(str(study), request(folder, "add", point), point=point)
    from hpo.study.additions import added_text, new_point
    from hpo.study.opening import add_while_idle
    from hpo.study.preparing.preparation import known_study

    known = known_study(str(folder))
    (added,), untried = add_while_idle(known, lambda record: [new_point(known, record, point)], user_name())
    return Answer(str(study), f"{added_text(added)}; {_goes_on(folder, untried)}", point=point)


def retry(study: StudyRef, trial: Annotated[int | None, Word("NUMBER", option="--trial")] = None) -> Answer:
    """Retry the failed trials of a running or stopped search, after you have fixed the cause.

    Each retry is a new trial with the same point, amount and training seed. It uses no budget. The failed trial
    stays in the record, and the retry refers to it.

    Args:
        trial: retry only this trial (default: all failed trials without a retry).

    Raises:
        hpo.HpoError: no trial failed, or the given trial did not fail, or has a retry already.

    Examples:
        hpo retry digits              all failed trials
        hpo retry digits --trial 7    only this trial
        hpo resume digits --allow-changes     if the study was stopped: train the retries, with the changed code
    """
    folder = find_study(str(study))
    if folder.holder() is not None:
        _refuse_past_search(folder, "retried")
        answer = request(folder, "retry", {} if trial is None else {"trial": trial})
        return Answer(str(study), answer, trial)
    from hpo.study.additions import retried_text, retries
    from hpo.study.opening import add_while_idle
    from hpo.study.preparing.preparation import known_study

    adds, untried = add_while_idle(known_study(str(folder)), lambda record: retries(record, trial), user_name())
    return Answer(str(study), f"{retried_text(adds)}; {_goes_on(folder, untried)}", trial)


def _goes_on(folder: StudyFolder, untried: Sequence[AddedPoint]) -> str:
    """Return a clause with the command that trains the added points of a stopped study."""
    name, status = folder.reference, latest_status(folder)
    if status.state == "open":
        return f"`hpo ask {name}` gets the next trial"
    from hpo.study.additions import resume_command

    plain, new = f"hpo resume {name}", sum(each.retry_of is None for each in untried)
    command = resume_command(name, new, status.done, folder.config().study, status.ended_by)
    return f"`{command}` continues" if command == plain else f"the search has ended; `{command}` continues the search"


def _refuse_past_search(folder: StudyFolder, participle: str) -> None:
    if not is_searching(folder):
        name = folder.reference
        raise StudyError(
            f"study: the search of {folder} is over and only its last trainings are running, so nothing can be "
            f"{participle} now; wait until they end (`hpo watch {name}`), or interrupt them (`hpo stop {name} --now`)"
        )


def raise_budget(folder: StudyFolder, config: StudyConfig) -> str | None:
    """Raise the budget of a running search to the budget in a configuration, and return the search's answer.

    Return None if no search is running, if the budget stays the same, or if `config` also changes other keys. Raise
    StudyError if the search has just ended.
    """
    if folder.holder() is None:
        return None
    frozen = folder.config()
    budget = {name: new for name in BUDGET if (new := getattr(config.study, name)) != getattr(frozen.study, name)}
    same = config.study.model_copy(update={name: getattr(frozen.study, name) for name in BUDGET})
    if not budget or config.model_copy(update={"study": same}) != frozen:
        # Other changes need a new process, which the study's lock then refuses.
        return None
    return request(folder, "raise", budget)


@dataclass(frozen=True)
class Noted(Fields):
    """The notes and tags of a study, including the new note.

    Attributes:
        study: the study's name.
        folder: the study's folder.
        tags: the last value of each tag.
        notes: all notes, each with `time` (UTC), `user`, `text` and the `tags` that it set.
    """

    study: str
    folder: Path
    tags: Mapping[str, str]
    notes: Sequence[UserNote]

    def __str__(self) -> str:
        return "\n".join(map(_line, self.notes))


def note(
    study: StudyRef, text: Annotated[str, Word("TEXT", collect=" ".join)] = "", *, tag: Tags | None = None
) -> Noted:
    """Add a note or tags to a study; without arguments, show its notes.

    Args:
        text: the text of the note, which the report and MLflow show.
        tag: a tag; without =VALUE its value is true. An empty value removes the tag.

    Raises:
        hpo.HpoError: a tag's name is not allowed.

    Examples:
        hpo note digits "the learning rates above 0.01 were a mistake"
        hpo note digits --tag phase=final --tag paper      add two tags, also while the study is running
        hpo note digits --tag phase=                       remove the tag `phase`
        hpo note digits                                    show the notes
    """
    folder = find_study(str(study))
    if not isinstance(tag or {}, Mapping):
        raise StudyError(f"tag: must be a dict of values by name, given {tag!r}")
    if text or tag:
        folder.refuse_other_format()
        add_note(folder, text, tag or {})
    return Noted(folder.path.name, folder.path, tags(folder), read_notes(folder))


def _line(entry: UserNote) -> str:
    parts = [entry.text] if entry.text else []
    parts += [f"{key}={value}" for key, value in entry.tags.items()]
    return printable(f"{entry.time}  {entry.user}  {', '.join(parts)}")
