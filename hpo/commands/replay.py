"""`search --replay` and `hpo.replay`: run a whole search again, your own or a published one."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from hpo.commands.arguments import Progress, name_or_path
from hpo.commands.given.settings import overrides_with_form
from hpo.commands.trust import ask_for_trust
from hpo.config.composing.compose import compose_config
from hpo.config.study_config import config_from_dict
from hpo.errors import StudyError, printable
from hpo.session.program import interrupted_in_one_line
from hpo.study.files.folder import StudyFolder, find_study, inner, short_path
from hpo.study.preparing.preparation import prepare_study
from hpo.study.reproduce.recorded import changed_code, read_files
from hpo.study.reproduce.replay import Replay, compare_trials, refuse_changed_config
from hpo.study.study import PreparedStudy
from hpo.trials.table import read_rows

if TYPE_CHECKING:
    import pandas as pd

    from hpo.session.running import Searched

_log = logging.getLogger(__name__)

# Keys of `study` that decide the trials or the winner: a replay takes them from the replayed study, with the sections
# `space`, `strategy`, `split` and `objective` and the objective's own keys.
TAKEN = (
    *("seed", "trials", "metric", "direction", "lanes", "order", "repeats", "finalists", "finalist_repeats", "winner"),
    *("trial_minutes", "stop_without_gain", "target", "stop_rule", "stop_rule_after", "extends", "references", "score"),
    *("metrics", "limits", "limits_after", "measured", "choose", "scales"),
)
# The other keys of `study`, and these sections, say where a study runs and is shown: the user of the replay sets them.
OWN = (
    *("name", "minutes", "stop_after_failures", "imports", "imports_fill", "checkpoints", "storage", "mirror"),
    *("artifacts", "on_trial", "trial_files_bytes"),
)
_OWN_SECTIONS = ("dispatch", "track", "report")


# The number of differing trials that are printed.
_NUM_PRINTED = 10


@dataclass(frozen=True)
class Replayed:
    """A replay of a search, and the comparison of its trials with the original trials.

    Attributes:
        searched: the result of the replay.
        of: the folder of the replayed study.
        trials: how many trials were compared.
        tolerance: the largest allowed difference between two scores, as a share of the larger score.
        differing: the columns that differ, by the trial's number; trials without a difference are left out.
    """

    searched: "Searched"
    of: StudyFolder
    trials: int
    tolerance: float
    differing: Mapping[int, Sequence[str]]

    def __str__(self) -> str:
        within = f"scores within {self.tolerance:.1%}" if self.tolerance else "bitwise equal scores"
        lines = [self.searched.text] if self.searched.text else []
        lines.append(f"required: {within}")
        for trial, columns in list(self.differing.items())[:_NUM_PRINTED]:
            lines.append(printable(f"trial {trial} differs in {', '.join(columns)}"))
        path = short_path(self.of.trials_path)
        if self.differing:
            lines.append(
                f"not the same: {len(self.differing)} of {self.trials} trials differ from the trials in {path}"
            )
        else:
            lines.append(f"replayed: all {self.trials} trials are the same as in {path}")
        return "\n".join(lines)

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if any trial differs from the original trial, else 0."""
        return 1 if self.differing else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the view of the replay's study; the key `replay` has the comparison with the original trials."""
        compared = {"of": self.of.path, "trials": self.trials, "tolerance": self.tolerance}
        return {**self.searched.to_dict(), "replay": {**compared, "differing": self.differing}}


@interrupted_in_one_line()
def replay(
    study: str | PathLike[str], *overrides: str, trust: bool = False, progress: Progress = "auto"
) -> "pd.DataFrame":
    """Run a study's whole search again, as `hpo search --replay` does, and compare the trials.

    Args:
        study: a `Study`, its name under runs/, or its folder.
        overrides: settings that say where the replay runs and is tracked, such as `"dispatch.workers=2"`,
            `"track=none"`.
        trust: allow the code of a study from another machine to run; read this code first.
        progress: how progress is shown, as in `hpo.search`.

    Returns:
        One row per trial that differs, with its number and the columns that differ; no rows = replayed exactly.
    """
    import pandas as pd

    prepared = replay_of(name_or_path(study), overrides, trust)
    replayed = run_replay(prepared, prepare_replay(prepared), progress)
    rows = [{"trial": trial, "differs in": ", ".join(columns)} for trial, columns in replayed.differing.items()]
    return pd.DataFrame(rows, columns=["trial", "differs in"])


def run_replay(original: Replay, study: PreparedStudy, progress: Progress) -> Replayed:
    """Run the prepared replay of a study, and compare the trials."""
    from hpo.session.running import run_shown

    searched = run_shown(study, progress)
    trials, differing = compare_trials(original, short_path(study.folder.trials_path))
    return Replayed(searched, original.files.folder, trials, original.files.tolerance, differing)


def replay_of(name: str, overrides: Sequence[str], is_trusted: bool) -> Replay:
    """Return a study's files, and the configuration of the study's replay.

    The overrides set their keys. The other keys have these values:

    - `dispatch.threads` and `dispatch.processes_per_task`: the study's values.
    - `study.name`: the study's name with `-replay`.
    - `study.stop_after_failures`: null.
    - `study.imports`: the study's file of imported trials, if the file exists.
    - The other keys in `OWN` and `_OWN_SECTIONS`: the defaults of `hpo search`.
    - All other keys: the study's values.

    If the search did not use its whole budget, `study.trials` is instead the number of trials to compare. The trials to
    compare are all trials before the first unfinished trial (state `running`). If the strategy counts configurations,
    `strategy.counts` is then `trials`.

    Raises:
        HpoError: the study cannot be replayed, has no finished trial, or is from another machine and not trusted.
    """
    files = read_files(find_study(name))
    folder, study = files.folder, files.config.study
    refuse_changed_config(files)
    own_keys = [text.lstrip("+").partition("=")[0] for text in overrides]
    function = folder.pickled_function(files.config)
    ask_for_trust(files.config, files.changes, is_trusted, function, own_keys=own_keys)
    rows = read_rows(short_path(folder.trials_path), ("number", "state"))
    trials = next((place for place, row in enumerate(rows) if row["state"] == "running"), len(rows))
    if trials == 0:
        raise StudyError(f"replay: {short_path(folder.trials_path)} has no finished trial to compare with")
    # The first trials of a search do not depend on its budget.
    decisive = [f"study.trials={trials}"] if trials < study.trials else []
    if files.config.strategy.get("counts") == "configurations":
        num_configurations = inner(files.report, "counts").get("configurations", study.trials)
        # If the original search is unfinished, replay only the trials before its first running trial.
        is_cut = trials < len(rows) or num_configurations < study.trials
        decisive = [f"study.trials={trials}", "strategy.counts=trials"] if is_cut else []
    # A name has at most 100 characters. Do not stop early, because trials that failed should fail again.
    here = [f"study.name={study.name[:93]}-replay", "study.stop_after_failures=null"]
    if folder.imports_path.exists():
        # Quote the values, because some characters have a meaning in Hydra.
        here.append(f"study.imports={json.dumps(str(folder.imports_path), ensure_ascii=False)}")
    own = [text for text in overrides if _is_own(text)]
    others = [text for text in overrides if not _is_own(text)]
    defaults = compose_config("search", [*here, *own])
    tree = compose_config("search", overrides_with_form([*decisive, *others]), config_file=str(folder.config_path))
    # Numbers of threads and processes change the last digits of a score.
    numeric = {
        name: tree["dispatch"][name]
        for name in ("threads", "processes_per_task")
        if name in tree["dispatch"] and not any(f"dispatch.{name}" in text for text in own)
    }
    tree |= {section: defaults[section] for section in _OWN_SECTIONS} | {"dispatch": defaults["dispatch"] | numeric}
    both = ((tree["study"], TAKEN), (defaults["study"], OWN))
    tree["study"] = {name: value for section, names in both for name, value in section.items() if name in names}
    return Replay(files, tree, rows[:trials])


def prepare_replay(original: Replay) -> PreparedStudy:
    """Return the prepared study of a replay; its notes list what changed since the original search."""
    config = config_from_dict(original.tree)
    study = original.study_of(prepare_study(config, original.files.folder.pickled_function(config), is_again=True))
    for line in changed_code(original.files.report, study):
        _log.warning("%s: %s", original.files.folder, line)
    notes = [f"what changed: {change}" for change in original.files.changes]
    if study.folder.exists:
        notes.insert(0, f"{study.folder} exists: only missing trials are trained; to train all again, delete it")
    return replace(study, own=replace(study.own, notes=(*notes, *study.own.notes)))


def _is_own(override: str) -> bool:
    section, _, key = override.lstrip("+~").partition("=")[0].partition(".")
    return section in _OWN_SECTIONS or (section == "study" and key in OWN)
