"""`stop`, `add`, `retry`, a larger budget, and `note`: what users do to a search, also while it runs.

Each of these actions but a note is written to the study's record with its place before it takes effect, so that
resume, replay and reproduction repeat it; the report lists it.
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

# What a running search takes: with another budget its trials stay the same.
BUDGET = ("trials", "minutes")


@dataclass(frozen=True)
class Answer(Fields):
    """The answer of a search to an action of the user.

    Attributes:
        study: as it was given.
        says: the answer.
        trial: the trial that was given; `null` = the search, or all trials that failed.
        point: the hyperparameters that were given to `add`; else `null`.
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
    """End a search once its running trials have ended, at once, or one of its trials, from any terminal.

    Args:
        trial: stop this trial alone.
        now: do not wait for the running trials.

    Raises:
        hpo.HpoError: no process runs the study, or the trial does not run.

    Examples:
        hpo stop digits               begins no further trial, and ends when those that run have ended
        hpo stop digits --now         as Ctrl-C: states are saved, and unfinished trials go on with `hpo resume`
        hpo stop digits --trial 7     this trial alone, where it is; it is never the winner, and the search goes on
    """
    folder = find_study(str(study))
    holder = folder.holder()
    if holder is None:
        raise StudyError(f"study: {folder} is not running, so there is nothing to stop")
    if trial is not None:
        refuse_without_effect({"--now": now}, "with --trial, which is stopped at once in any case")
    if now and not (holder.is_here and holder.process):
        raise StudyError(f"--now: {holder} is on another machine; stop it there, or leave --now out")
    if now:
        assert holder.process is not None
        os.kill(holder.process, signal.SIGINT)
        return Answer(str(study), f"{holder} was told to stop; what it has is saved", trial)
    _refuse_past_search(folder, "stopped")
    return Answer(str(study), request(folder, "stop", {} if trial is None else {"trial": trial}), trial)


def add(study: StudyRef, point: Point) -> Answer:
    """Let a running or stopped search try a point of your own next.

    Args:
        point: values of what is searched, by dotted key; what is left out has its default.

    Raises:
        hpo.HpoError: it is none of the space, it was tried or added before, or the search has just ended.

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
    """Let a running or stopped search try its failed trials again, once their fault is fixed.

    Each retry is a further trial with the same point, amount and training seed. It uses no budget, and names the
    failed trial, which stays as it is.

    Args:
        trial: this failed trial alone (default: all that failed and were not retried).

    Raises:
        hpo.HpoError: no trial failed, or this one did not, or was retried before.

    Examples:
        hpo retry digits              all that failed; then `hpo resume digits`, with --allow-changes for changed code
        hpo retry digits --trial 7    this trial alone
    """
    folder = find_study(str(study))
    if folder.holder() is not None:
        _refuse_past_search(folder, "retried")
        says = request(folder, "retry", {} if trial is None else {"trial": trial})
        return Answer(str(study), says, trial)
    from hpo.study.additions import retried_text, retries
    from hpo.study.opening import add_while_idle
    from hpo.study.preparing.preparation import known_study

    adds, untried = add_while_idle(known_study(str(folder)), lambda record: retries(record, trial), user_name())
    return Answer(str(study), f"{retried_text(adds)}; {_goes_on(folder, untried)}", trial)


def _goes_on(folder: StudyFolder, untried: Sequence[AddedPoint]) -> str:
    """Say by which command a study that no process runs tries what was added."""
    name, status = folder.reference, latest_status(folder)
    if status.state == "open":
        return f"`hpo ask {name}` asks for it"
    from hpo.study.additions import resume_command

    goes_on, new = f"hpo resume {name}", sum(each.retry_of is None for each in untried)
    command = resume_command(name, new, status.done, folder.config().study, status.ended_by)
    return f"`{command}` goes on" if command == goes_on else f"its budget is used up: `{command}` goes on"


def _refuse_past_search(folder: StudyFolder, what: str) -> None:
    if not is_searching(folder):
        name = folder.reference
        raise StudyError(
            f"study: the search of {folder} is over, and what follows it is being trained, so nothing can be "
            f"{what} now; it ends by itself (`hpo watch {name}`), `hpo stop {name} --now` stops it"
        )


def raise_budget(folder: StudyFolder, config: StudyConfig) -> str | None:
    """Let a running search go on to the budget of a configuration, and return what was answered; None where none runs.

    StudyError where more than the budget differs from the study's own configuration, or the search has just ended.
    """
    if folder.holder() is None:
        return None
    frozen = folder.config()
    asked = {name: new for name in BUDGET if (new := getattr(config.study, name)) != getattr(frozen.study, name)}
    same = config.study.model_copy(update={name: getattr(frozen.study, name) for name in BUDGET})
    if not asked or config.model_copy(update={"study": same}) != frozen:
        # What else changes is for a search that begins; its lock names who runs it.
        return None
    return request(folder, "raise", asked)


@dataclass(frozen=True)
class Noted(Fields):
    """What was written beside a study, this note included.

    Attributes:
        study: its name.
        folder: where it is.
        tags: the last value of each.
        notes: all of them, each with `time` (UTC), `user`, `text` and the `tags` that it set.
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
    """Write beside a study what only a person knows, or tag it; without either: what was written.

    Args:
        text: what it says; it is shown in the report and in MLflow.
        tag: a tag; without =VALUE its value is true. An empty value removes it.

    Raises:
        hpo.HpoError: a tag's name is none.

    Examples:
        hpo note digits "the learning rates above 0.01 were a mistake"
        hpo note digits --tag phase=final --tag paper      also while it runs; `--tag phase=` removes the tag
        hpo note digits                                    what was written
    """
    folder = find_study(str(study))
    if text or tag:
        folder.refuse_other_format()
        add_note(folder, text, tag or {})
    return Noted(folder.path.name, folder.path, tags(folder), read_notes(folder))


def _line(said: UserNote) -> str:
    parts = [said.text] if said.text else []
    parts += [f"{key}={value}" for key, value in said.tags.items()]
    return printable(f"{said.time}  {said.user}  {', '.join(parts)}")
