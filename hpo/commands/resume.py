"""`resume` and `extend`: a study goes on, or its best trials are trained further."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from hpo.commands.arguments import Overrides, Progress, StudyOrMirror, StudyRef, Trust, Word, refuse_without_effect
from hpo.commands.given.settings import overrides_with_form, with_settings
from hpo.commands.steer import raise_budget
from hpo.commands.trust import ask_for_trust
from hpo.config.composing.references import with_changes
from hpo.config.keys import refuse_unknown
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
"""Of a study's configuration: overrides as on the command line, or values by dotted key."""

# How many trials are trained further where nothing else is said.
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
    """Continue a study from its frozen configuration; later edits of the configuration cannot leak in.

    One that another process runs goes on there to a larger budget, the only change it takes; this returns at once.

    Limits that are given after the search choose its winner anew among its trials, and no trial is trained; the report
    says when they were given, and whether the test part was open.

    Args:
        trials: as of `hpo.search`: a larger budget.
        overrides: a larger budget or other workers, such as study.trials=40, dispatch.workers=4, track=none.
        minutes: as of `hpo.search`.
        workers: the same.
        settings: other keys that no trial depends on, by dotted key, such as `{"study.limits": {"latency_ms": 2}}`.
        data: where the data are now, if they were moved, by key: `{"data.path": "there.csv"}`. The content must be
            the same; the place is kept with the study.
        callbacks: as of `hpo.search`.
        name: continue with a copy of this name, which is a separate study.
        allow_changes: continue although something has changed since; the report says what.
        trust: with a URL: run the objective of a study that was not made here, and do not ask before.

    Raises:
        hpo.HpoError: it cannot go on, in one line that says what to do.
        KeyboardInterrupt: an interrupt; everything that was finished is saved, and the same call goes on.

    Examples:
        hpo resume digits
        hpo resume digits study.trials=40 dispatch.workers=4
        hpo resume digits study.trials=60               also while it runs: it goes on to the larger budget
        hpo resume digits track=none dispatch=local     shown nowhere, and trained in this process
        hpo resume digits 'study.limits={latency_ms: 2}'  after the search: its best trial within them; trains none
        hpo resume digits --as deeper study.trials=40   the same trials, and more, as a study of its own
        hpo resume reviews data.path=there.csv          the data lie elsewhere now
        hpo resume s3://bucket/digits                   from its copy (study.mirror), on any machine
        hpo resume s3://bucket/digits --trust           the same, unasked where it was not made on this machine
        hpo resume digits --allow-changes               although code, data or configuration changed; the report says
    """
    # Before anything is copied.
    refuse_unknown_progress(progress)
    is_url, notes = "://" in str(study), []
    refuse_without_effect({"--trust": trust and not is_url}, "without a URL, since a study under runs/ is yours")
    if is_url:
        folder = restore(str(study))
        notes.append(f"copied to {folder}")
    else:
        folder = find_study(str(study))
    given = {"study.trials": trials, "study.minutes": minutes, "dispatch.workers": workers}
    changes = {**(settings or {}), **{key: value for key, value in given.items() if value is not None}}
    config = changed_config(folder, _one_form(overrides, changes, data), data)
    if name is None and (says := raise_budget(folder, config)) is not None:
        from hpo.session.running import Searched

        name = config.study.name
        return Searched(name, folder.path, says, text=f"study {name}, which runs: {says}")
    if is_url:
        ask_for_copied(folder, config, str(study), trust)
    if name is None and folder.path.name != config.study.name:
        notes.append(
            f"{folder} holds study '{config.study.name}': as a copy it shares its name and its run in MLflow with the "
            f"original; `hpo resume {folder} --as NEW` makes it a study of its own"
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
    """Train the best trials of a study further, longer or larger, as a study of its own.

    The new study has the points, folds and seeds of the old one's best trials; its report sets the scores side by
    side, and `hpo resume`, `hpo test` and `hpo reproduce` work as with every study. A training goes on from its
    state where that is kept (of halving's last rungs, and where an objective's CONTINUES_WITH allows the change);
    else it begins anew. To climb is to search at a larger scale: the new study is a ladder that knows the trials of
    the old one, and searches around its best.

    Args:
        changes: what is trained differently, by dotted key: `{"training.epochs": 60}`; None = nothing: trials that
            a strategy stopped or trained in part are trained to their end.
        overrides: what is trained differently, such as training.epochs=60; or study.name=longer.
        best: how many trials, the best first (default: 5).
        trials: this one, by its number, instead of the best; may be several.
        climb: search at what is changed, in windows around the best, instead of training the best there;
            study.trials among the changes says how many trials it adds.
        data: where the data are now, if they were moved, by key; kept with the new study.
        name: the new study's; None = the old one's with `-extended`.

    Raises:
        hpo.HpoError: it cannot be extended so, in one line that says what to do. Nothing was created.
        KeyboardInterrupt: an interrupt; everything that was finished is saved, and the same call goes on.

    Examples:
        hpo extend digits training.epochs=60
        hpo extend digits --best 3 training.epochs=60 study.name=longer study.finalists=3
        hpo extend digits --best 1 training.weight_decay=0.1    the winner with another value, next to the old one
        hpo extend digits --trial 6 --trial 9                   trials that were stopped, to their end
        hpo extend halved --best 4                              the best four of halving's rungs, to their end
        hpo extend reviews training.epochs=60 data.path=there.csv       the data lie elsewhere now
        hpo extend small --climb model.d_model=512 model.feed_forward_width=1024 study.trials=4    at a larger scale
    """
    if climb:
        refuse_without_effect({"trial": trials, "best": best}, "with --climb, which searches around the best")
    folder = find_study(str(study))
    given = _one_form(overrides, {**(changes or {}), **({"study.name": name} if name else {})}, data)
    config = _config_of_extension(folder, given, data, climb)
    moved = moved_sources(folder.config().to_dict(), config.to_dict())
    extended = load_study(str(folder), elsewhere={key: place for key, (_, place) in moved.items()})
    if climb:
        keys = [change.partition("=")[0].lstrip("+") for change in given]
        config = config_at_larger_scale(extended, config, keys)
    else:
        with opened_run(extended) as run:
            picked = choose_trials(extended, run.history, _BEST if best is None else best, trials)
        config = extension_of(extended, picked, config)
    prepared = prepare_study(config, extended.objective.pickled)
    section = prepared.config.study
    if section.extends is None:
        scale = point_text((section.scales or [{}])[-1])
        # One that exists goes on, and its record knows how many.
        known = f"{len(prepared.imports.trials)} trials are known, " if prepared.imports.trials else ""
        says = f"climbs from {section.imports}: {known}{section.trials} at {scale}"
    else:
        continued = sum(trial.continues for trial in section.extends.trials)
        how = f"{continued} from their states, {len(section.extends.trials) - continued} anew"
        numbers = ", ".join(str(trial.number) for trial in section.extends.trials)
        says = f"extends {section.extends.study}: trials {numbers} ({how})"
    return _run(prepared, progress, says)


def _one_form(overrides: Sequence[str], changes: Mapping[str, Any], data: Mapping[str, str] | None) -> Changes:
    """Return what is changed, as overrides or by dotted key; ConfigError where both are given."""
    if overrides and (changes or data):
        raise ConfigError(
            f"overrides: {overrides[0]} is given with {', '.join({**changes, **(data or {})})} by name; give all as "
            f"overrides, or all by name"
        )
    return overrides or changes


def _run(study: PreparedStudy, progress: Progress, *notes: str) -> "Searched":
    """Run a study, shown as asked; these notes are said before its own."""
    from hpo.session.running import run_shown

    return run_shown(replace(study, own=replace(study.own, notes=(*notes, *study.own.notes))), progress)


def changed_config(folder: StudyFolder, changes: Changes, data: Mapping[str, str] | None = None) -> StudyConfig:
    """Return a study's configuration with what is changed, and with its data at these places, by key."""
    if isinstance(changes, Mapping):
        config = config_from_dict(with_settings(at_places(folder.config(), data or {}).to_dict(), changes))
    else:
        folder.refuse_other_format()
        from hpo.config.composing.compose import compose_config

        tree = compose_config("search", overrides_with_form(changes), config_file=str(folder.config_path))
        config = config_from_dict(tree)
    # Given again as the search has them, they choose again.
    given = any(re.match(r"[+~]*study\.limits(?![\w])", change) for change in changes)
    return with_later_limits(folder.config(), config) if given else config


def _config_of_extension(
    folder: StudyFolder, changes: Changes, data: Mapping[str, str] | None, climb: bool
) -> StudyConfig:
    """Return the configuration with what is changed; to climb, on top of what the largest scale changes."""
    frozen = folder.config()
    if climb and frozen.study.scales is not None:
        largest = frozen.study.scales[-1]
        if isinstance(changes, Mapping):
            changes = {**largest, **changes}
        else:
            changes = [*(f"{key}={json.dumps(value)}" for key, value in largest.items()), *changes]
    if not isinstance(changes, Mapping):
        return changed_config(folder, changes)
    tree = at_places(frozen, data or {}).to_dict()
    if climb:
        tree["strategy"].setdefault("costs", None)
    refuse_unknown(changes, tree, "changes")
    return config_from_dict(with_changes(tree, changes))


def ask_for_copied(folder: StudyFolder, changed: StudyConfig, url: str, is_trusted: bool) -> None:
    """Ask before anything of a study that came from a URL, and was not made here, is imported or run."""
    config, now = folder.config(), reaches_of(changed)
    # Those that the user gives now, or has used before, are his own.
    theirs = [line for line in reaches_of(config) if line in now and not is_reached_here(line)]
    packages = [line for line in theirs if line.startswith(ENVIRONMENT)]
    commands = [line for line in theirs if line.startswith(COMMAND)]
    places = [line for line in theirs if line not in (*packages, *commands) and line.partition("=")[2] != url]
    pickled = folder.pickled_function(config)
    try:
        ask_for_trust(config, (), is_trusted, pickled, places=places, packages=packages, commands=commands)
    except ConfigError as error:
        # To read a function is to run its maker's code, which `go_on` refuses until it is trusted.
        trusted = f"`hpo reproduce {short_path(folder.path)} --trust`, after which " if pickled else ""
        read = f"read {short_path(folder.config_path)}, and {trusted}`{folder.go_on}` goes on with it"
        raise ConfigError(f"{error}; it was only copied: {read}") from error
