"""A hand on a study's search: a point added, a trial or the search stopped, the budget raised, also while it runs."""

import os
import signal
from collections.abc import Mapping
from typing import Any

from hpo.commands.kept import KeptStudy
from hpo.config.study_config import StudyConfig
from hpo.errors import ConfigError, StudyError
from hpo.machine import user_name
from hpo.study.files.folder import StudyFolder
from hpo.study.files.requests import is_searching, request
from hpo.study.view.reader import StudyReader
from hpo.study.view.view import StudyView
from hpo.trials.space.space import short_text

# What a running search takes: with another budget its trials stay the same.
BUDGET = ("trials", "minutes")


class SteeredStudy(KeptStudy):
    """A study whose search a hand may steer; `hpo.Study` has all of this, too.

    Each act is written to the study's record with its place before it takes effect, so that resume, replay and
    reproduction repeat it; the report lists it.
    """

    @property
    def status(self) -> StudyView:
        """All that can be known of it now: its state, who runs it, how far it is, the best so far, what can be done."""
        return StudyReader(self._folder, self._folder.reference).view()

    def add(self, point: Mapping[str, Any]) -> str:
        """Let the search try a point of one's own next, and return what was answered.

        A study that no process runs tries it when it goes on.

        Args:
            point: values by key of the space; what it leaves out has its default.

        Raises:
            hpo.HpoError: it is none of the space, it was tried or added before, or the search has just ended.
        """
        if self._folder.holder() is None:
            # Here, since they load SQLAlchemy.
            from hpo.study.opening import add_point
            from hpo.study.preparing.preparation import known_study

            added, untried = add_point(known_study(str(self._folder)), point, user_name())
            return f"it is tried next when the study goes on ({self._goes_on(untried)}): {short_text(added)}"
        self._refuse_past_search("added")
        return request(self._folder, "add", point)

    def stop(self, trial: int | None = None, *, now: bool = False) -> str:
        """Stop the search once its running trials have ended, or one trial, and return what was answered.

        Args:
            trial: stop this one where it is, as a rule would: it is never the winner, and the search goes on.
            now: stop the search as Ctrl-C does: states are saved, and unfinished trials are trained again later.

        Raises:
            hpo.HpoError: no process runs the study, or the trial does not run.
        """
        holder = self._folder.holder()
        if holder is None:
            raise StudyError(f"study: {self._folder} is not running, so there is nothing to stop")
        if trial is not None and now:
            raise ConfigError("--now: a trial is stopped at once in any case; leave it out")
        if now and holder.is_here and holder.process:
            os.kill(holder.process, signal.SIGINT)
            return f"{holder} was told to stop; what it has is saved"
        if now:
            raise StudyError(f"--now: {holder} is on another machine; stop it there, or leave --now out")
        self._refuse_past_search("stopped")
        return request(self._folder, "stop", {} if trial is None else {"trial": trial})

    def _goes_on(self, untried: int) -> str:
        """By which command a study that no process runs tries so many points that were added."""
        name, status = self._folder.reference, self.status
        if status.state == "open":
            return f"`hpo ask {name}`"
        # Here, as above.
        from hpo.study.additions import what_tries

        goes_on = f"hpo resume {name}"
        command = what_tries(name, untried, status.done, self._folder.config().study, status.ended_by)
        return f"`{command}`" if command == goes_on else f"its budget is used up: `{command}`"

    def _refuse_past_search(self, what: str) -> None:
        if not is_searching(self._folder):
            name = self._folder.reference
            raise StudyError(
                f"study: the search of {self._folder} is over, and what follows it is being trained, so nothing can be "
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
