"""`resume`, which continues a study, and `extend`, which trains the best trials of a study in a new study."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from hpo.commands.arguments import Overrides, Progress, StudyOrMirror, StudyRef, Trust, Word, refuse_without_effect
from hpo.commands.given.settings import overrides_with_form, settings_of, with_settings
from hpo.commands.steer import raise_budget
from hpo.commands.trust import ask_for_trust
from hpo.config.composing.references import with_changes
from hpo.config.keys import refuse_unknown, within
from hpo.config.study_config import StudyConfig, config_from_dict
from hpo.errors import ConfigError
from hpo.report.formatting import point_text
from hpo.show.display import refuse_unknown_progress
from hpo.study.basis.configurations import moved_sources
from hpo.study.extension import choose_trials, extension_of
from hpo.study.files.folder import StudyFolder, find_study, short_path
from hpo.study.files.made_here import COMMAND, ENVIRONMENT, is_reached_here, reaches_of
from hpo.study.larger_scale import config_at_larger_scale
from hpo.study.later_limits import with_later_limits
from hpo.study.opening import opened_run
from hpo.study.preparing.preparation import at_places, load_study, prepare_study
from hpo.study.storage.mirror import restore
from hpo.study.study import PreparedStudy

if TYPE_CHECKING:
    from hpo.session.running import Searched

Changes = Sequence[str] | Mapping[str, Any]
"""Changes of a study's configuration: overrides as on the command line, or values by dotted key."""

# The default number of trials that `extend` trains.
_BEST = 5


def resume(
    study: StudyOrMirror,
    trials: Annotated[int | None, Word(is_hidden=True)] = None,
    overrides: Overrides = (),
    *,
    minutes: Annotated[float | None, Word(is_hidden=True)] = None,
    workers: Annotated[int | None, Word(is_hidden=True)] = None,
    settings: Annotated[Mapping[str, Any] | None, Word(is_hidden=True)] = None,
    data: Annotated[Mapping[str, str] | None, Word(is_hidden=True)] = None,
    callbacks: Annotated[Sequence[Callable[..., Any]], Word(is_hidden=True)] = (),
    name: Annotated[str | None, Word("NEW", option="--as")] = None,
    allow_changes: bool = False,
    trust: Trust = False,
    progress: Progress = "auto",
) -> "Searched":
    """Continue a study from its frozen configuration; later edits of configuration files have no effect.

    If another process is running the study, this call only raises the budget of the running search, and returns at
    once. No other change is possible then.

    If you give new limits after the search, the winner is chosen again among the existing trials, without training. The
    report says when you gave the limits, and whether the test evaluation was earlier or later.

    Args:
        trials: a larger budget, as in `hpo.search`.
        overrides: changes, such as study.trials=40 (a larger budget), dispatch.workers=4 or track=none.
        minutes: a larger budget in wall time, as in `hpo.search`.
        workers: how many processes train at once.
        settings: other keys that change no trial, by dotted key, such as `{"study.limits": {"latency_ms": 2}}`.
        data: the new paths of moved data, by key: `{"data.path": "there.csv"}`. The content must be the same; the
            study saves the paths.
        callbacks: functions `f(study, trial)`, as in `hpo.search`.
        name: copy the study to this name, and continue only the copy, which is a separate study.
        allow_changes: continue although code, data or configuration have changed; the report lists the changes.
        trust: if a URL names a study from another machine, run the study's code without asking first.

    Raises:
        hpo.HpoError: the study cannot continue; the message says what to do.
        KeyboardInterrupt: after an interrupt. Finished trainings are saved; the same call continues the study.

    Examples:
        hpo resume digits
        hpo resume digits study.trials=40 dispatch.workers=4
        hpo resume digits study.trials=60               a larger budget, also while the study is running
        hpo resume digits track=none dispatch=local     without tracking, in this process
        hpo resume digits 'study.limits={latency_ms: 2}'  after the search: choose the best trial within the limits
        hpo resume digits --as deeper study.trials=40   the same trials, and more, as a separate study
        hpo resume reviews data.path=there.csv          the data were moved
        hpo resume s3://bucket/digits                   from the study's mirror (study.mirror), on any machine
        hpo resume s3://bucket/digits --trust           the same, without a question about the study's code
        hpo resume digits --allow-changes               after changes of code, data or configuration
    """
    # Check this before a mirror is copied.
    refuse_unknown_progress(progress)
    is_url, notes = "://" in str(study), []
    refuse_without_effect(
        {"trust": trust and not is_url}, "on a study in a local folder, because only a study from a URL needs trust"
    )
    if is_url:
        folder = restore(str(study))
        notes.append(f"copied to {folder}")
    else:
        folder = find_study(str(study))
    changes = settings_of(settings, workers=workers, trials=trials, minutes=minutes)
    config = changed_config(folder, _one_form(overrides, changes, data), data)
    if name is None and folder.holder() is not None:
        without_effect = {"callbacks": callbacks, "allow_changes": allow_changes}
        refuse_without_effect(without_effect, "while the study is running, because only its budget can change")
    if name is None and (answer := raise_budget(folder, config)) is not None:
        from hpo.session.running import Searched

        name = config.study.name
        return Searched(name, folder.path, answer, text=f"study {name} is running: {answer}")
    if is_url:
        ask_for_copied(folder, config, str(study), trust)
    if name is None and folder.path.name != config.study.name:
        notes.append(
            f"{folder} is a copy of study '{config.study.name}', with the same name and the same run in MLflow; "
            f"`hpo resume {folder} --as NEW` makes the copy a separate study"
        )
    if name is None:
        prepared = load_study(str(folder), config, allow_changes)
    else:
        from hpo.study.storage.copy import continue_as

        prepared = continue_as(folder, name, config, allow_changes)
    return _run(replace(prepared, callbacks=tuple(callbacks)), progress, *notes)


def extend(
    study: StudyRef,
    changes: Annotated[Mapping[str, Any] | None, Word(is_hidden=True)] = None,
    overrides: Overrides = (),
    *,
    best: Annotated[int | None, Word("N")] = None,
    trials: Annotated[Sequence[int], Word("N", option="--trial")] = (),
    climb: bool = False,
    data: Annotated[Mapping[str, str] | None, Word(is_hidden=True)] = None,
    name: Annotated[str | None, Word(is_hidden=True)] = None,
    progress: Progress = "auto",
) -> "Searched":
    """Train the best trials of a study longer, or with a changed configuration, in a new study.

    The new study takes over the points, folds and seeds of the best trials, and its report compares old and new scores.
    All commands work on the new study. A training continues from its saved state if the objective's CONTINUES_WITH
    allows the change; else it starts anew. After successive halving, only trials of the last rungs have saved states.
    With `climb`, the new study is a ladder: it searches at a larger scale, around the best trials of the old study.

    Args:
        changes: new values of the configuration, by dotted key, such as `{"training.epochs": 60}`. None = no change;
            stopped and partially trained trials are then trained fully.
        overrides: changes of the configuration, such as training.epochs=60; or the new study's name, such as
            study.name=longer.
        best: how many of the best trials to train (default: 5).
        trials: the number of a trial to train instead of the best trials; several numbers are allowed.
        climb: do not train the best trials, but search around these trials with the changed configuration; the change
            study.trials=N says how many trials to add.
        data: the new paths of moved data, by key; the new study saves them.
        name: the name of the new study; None = the old name with `-extended`.

    Raises:
        hpo.HpoError: the study cannot be extended in this way; the message says what to do. Nothing was created.
        KeyboardInterrupt: after an interrupt. Finished trainings are saved; the same call continues the study.

    Examples:
        hpo extend digits training.epochs=60
        hpo extend digits --best 3 training.epochs=60 study.name=longer study.finalists=3
        hpo extend digits --best 1 training.weight_decay=0.1    the winner with another value, next to the old one
        hpo extend digits --trial 6 --trial 9                   train two stopped trials fully
        hpo extend halved --best 4                              fully train the best four trials of successive halving
        hpo extend reviews training.epochs=60 data.path=there.csv       the data were moved
        hpo extend small --climb model.d_model=512 model.feed_forward_width=1024 study.trials=4    at a larger scale
    """
    if climb:
        refuse_without_effect({"trial": trials, "best": best}, "with climb, which searches around the best trials")
    if not isinstance(trials, Sequence):
        raise ConfigError(f"trials: must be a list of trial numbers, given {trials!r}")
    if trials:
        refuse_without_effect({"best": best}, "if the trials are given by number")
    folder = find_study(str(study))
    given = _one_form(overrides, settings_of(changes, name=name), data)
    config = _config_of_extension(folder, given, data, climb)
    moved = moved_sources(folder.config().to_dict(), config.to_dict())
    extended = load_study(str(folder), elsewhere={key: place for key, (_, place) in moved.items()})
    if climb:
        config = config_at_larger_scale(extended, config, _keys(given))
    else:
        with opened_run(extended) as run:
            picked = choose_trials(extended, run.history, _BEST if best is None else best, trials)
        config = extension_of(extended, picked, config)
    prepared = prepare_study(config, extended.objective.pickled)
    section = prepared.config.study
    if section.extends is None:
        scale = point_text((section.scales or [{}])[-1])
        # If the new study exists already, this call continues it. The imported trials are then only in its record.
        known = f"{len(prepared.imports.trials)} trials are known, " if prepared.imports.trials else ""
        note = f"climbs from {section.imports}: {known}{section.trials} at {scale}"
    else:
        continued = sum(trial.continues for trial in section.extends.trials)
        starts = f"{continued} continue from saved states, {len(section.extends.trials) - continued} start anew"
        numbers = ", ".join(str(trial.number) for trial in section.extends.trials)
        note = f"extends {section.extends.study}: trials {numbers} ({starts})"
    return _run(prepared, progress, note)


def _one_form(overrides: Sequence[str], changes: Mapping[str, Any], data: Mapping[str, str] | None) -> Changes:
    """Return `overrides` if there are any; else return `changes`.

    If `overrides` is given together with `changes` or with `data`, raise ConfigError. `data` has the new paths of moved
    data, by key; this function only checks whether `data` is given.
    """
    if overrides and (changes or data):
        raise ConfigError(
            f"overrides: {overrides[0]} is given as an override, and {', '.join({**changes, **(data or {})})} by "
            f"name; give all as overrides, or all by name"
        )
    return overrides or changes


def _run(study: PreparedStudy, progress: Progress, *notes: str) -> "Searched":
    """Run a study; print `notes` before the study's own notes."""
    from hpo.session.running import run_shown

    return run_shown(replace(study, own=replace(study.own, notes=(*notes, *study.own.notes))), progress)


def changed_config(folder: StudyFolder, changes: Changes, data: Mapping[str, str] | None = None) -> StudyConfig:
    """Return a study's configuration with `changes` applied; `data` maps keys to the new paths of moved data."""
    if isinstance(changes, Mapping):
        config = config_from_dict(with_settings(at_places(folder.config(), data or {}).to_dict(), changes))
    else:
        folder.refuse_other_format()
        from hpo.config.composing.compose import compose_config

        tree = compose_config("search", overrides_with_form(changes), config_file=str(folder.config_path))
        config = config_from_dict(tree)
    # If the user gives limits, they choose the winner anew, even if they are equal to the limits of the search.
    given = any(re.match(r"[+~]*study\.limits(?![\w])", change) for change in changes)
    return with_later_limits(folder.config(), config) if given else config


def _config_of_extension(
    folder: StudyFolder, changes: Changes, data: Mapping[str, str] | None, climb: bool
) -> StudyConfig:
    """Return the configuration of the study in `folder`, with `changes` applied.

    If `climb` is true and the study has scales, apply the keys of the study's largest scale before `changes`.
    """
    frozen = folder.config()
    largest = (frozen.study.scales or [{}])[-1] if climb else {}
    if not isinstance(changes, Mapping):
        given = _keys(changes)
        others = {key: value for key, value in largest.items() if not any(within(key, one) for one in given)}
        return config_from_dict(with_changes(changed_config(folder, changes).to_dict(), others))
    tree = at_places(frozen, data or {}).to_dict()
    if climb:
        tree["strategy"].setdefault("costs", None)
    changes = {**largest, **changes}
    refuse_unknown(changes, tree, "changes")
    return config_from_dict(with_changes(tree, changes))


def _keys(changes: Changes) -> list[str]:
    return [change.partition("=")[0].lstrip("+~") for change in changes]


def ask_for_copied(folder: StudyFolder, changed: StudyConfig, url: str, is_trusted: bool) -> None:
    """Ask whether the user trusts a copied study from another machine, before its code is imported or run.

    ConfigError if nobody can be asked, or if the answer is no.
    """
    config, now = folder.config(), reaches_of(changed)
    # Values that the user gives now, or has used before, need no question.
    foreign = [line for line in reaches_of(config) if line in now and not is_reached_here(line)]
    packages = [line for line in foreign if line.startswith(ENVIRONMENT)]
    commands = [line for line in foreign if line.startswith(COMMAND)]
    places = [line for line in foreign if line not in (*packages, *commands) and line.partition("=")[2] != url]
    pickled = folder.pickled_function(config)
    try:
        ask_for_trust(config, (), is_trusted, pickled, places=places, packages=packages, commands=commands)
    except ConfigError as error:
        # Unpickling a function runs code of its author, which `go_on` refuses until the study is trusted.
        trust = f"`hpo reproduce {short_path(folder.path)} --trust`, then " if pickled else ""
        read = f"read {short_path(folder.config_path)}, then {trust}`{folder.go_on}`"
        raise ConfigError(
            f"{error}; the study was copied, but its code was not run; to continue the study, {read}"
        ) from error
