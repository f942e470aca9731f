"""`hpo search`: create the study, or continue it if it exists unchanged, and run it to its budget."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.cli.arguments import add_config, add_json, add_trust, make_parser, show_config
from hpo.cli.output import show_json
from hpo.cli.searching import add_progress, run_and_show
from hpo.errors import ConfigError, printable

if TYPE_CHECKING:
    from hpo.config.study_config import StudyConfig
    from hpo.study.reproduce.replay import Replay
    from hpo.study.study import PreparedStudy

_EXAMPLES = """\
  hpo search                                        the default study: a Transformer on handwritten digits
  hpo search strategy=evolutionary study.name=evo study.trials=40
  hpo search data=text_classification data.train=train.tsv data.validation=dev.tsv data.test=test.tsv
  hpo search data=translation data.path=train data.source_ending=.de data.target_ending=.en   train.de, train.en
  hpo search 'space.training.lr={low: 1e-5, high: 1e-2, log: true}' space.model.num_heads=[2,4]
  hpo search 'study.metrics={accuracy: maximize, parameters: minimize}' study.limits={latency:5}
  hpo search strategy=asha study.trials=1000 study.minutes=90 study.stop_without_gain=100
  hpo search split.folds=5 dispatch.workers=4 dispatch.gpus_per_worker=0.5
  hpo search --config-dir my_conf study=forest      groups of your own, as `hpo new forest` writes them
  hpo search --replay studies/digits                a published search again, trial by trial
  hpo search dispatch.address=HEAD:6379 --dry-run   check it, and list the files that would travel
  hpo search --json > result.json                   what it came to, for programs; --progress json: as it comes
  hpo search --cfg job                              print the configuration, run nothing"""

# The largest number of trials that differ from those replayed, and are printed.
_SHOWN = 10


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("search", __doc__, _EXAMPLES)
    parser.add_argument("--replay", metavar="STUDY", help="run this study's whole search again and compare its trials")
    what = "check everything, print what would be trained where and which files would travel; create nothing"
    parser.add_argument("--dry-run", action="store_true", help=what)
    add_trust(parser, "with --replay")
    add_config(parser)
    add_progress(parser)
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)
    if given.trust and not given.replay:
        parser.error("--trust has no effect without --replay")
    replay = _replay(given) if given.replay else None

    from hpo.commands.given.settings import compose_search
    from hpo.config.study_config import config_from_dict

    tree = replay.tree if replay else compose_search(given.overrides, given.config_dir, given.config)

    config = config_from_dict(tree)
    if given.cfg:
        return _show_config(tree, config, replay)

    # Imported after the configuration was read, so that a fault in it is reported at once.
    from hpo.study.preparing.preparation import prepare_study, with_its_tracker

    if replay:
        from hpo.commands.replay import prepare_replay

        study = prepare_replay(replay)
    else:
        study = prepare_study(with_its_tracker(config))
    if given.dry_run:
        return _show_dry_run(study)

    if replay is None:
        return run_and_show(study, given)

    if study.folder.exists:
        print(f"{study.folder} exists: only missing trials are trained; to train all of them again, delete it")
    for change in replay.files.changes:
        print(f"what changed: {printable(change)}")
    from hpo.session.running import run_shown

    searched = run_shown(study, given.progress)
    if searched.text:
        print(searched)
    code, compared = _show_comparison(replay, study)
    show_json({**searched.to_dict(), **compared})
    return code


def _show_config(tree: Mapping[str, Any], config: "StudyConfig", replay: "Replay | None") -> int:
    """Print the configuration of a search that can begin."""
    from hpo.config.keys import replaced, without
    from hpo.session.surroundings import refuse_bad_surroundings
    from hpo.study.preparing.preparation import refuse_bad_search

    kept = replay.files.folder.kept_function(config) if replay else None
    references = refuse_bad_search(config, kept, is_again=replay is not None).study.references
    refuse_bad_surroundings(config)
    tree = without(tree, "study.references")
    show_config(replaced(tree, {"study.references": references}) if references else tree)
    return 0


def _replay(given: argparse.Namespace) -> "Replay":
    for option in ("config", "config_dir"):
        if getattr(given, option):
            raise ConfigError(
                f"--{option.replace('_', '-')}: has no effect with --replay, which has a configuration; remove it"
            )
    from hpo.commands.replay import replay_of

    return replay_of(given.replay, given.overrides, given.trust)


def _show_comparison(replay: "Replay", study: "PreparedStudy") -> tuple[int, Mapping[str, Any]]:
    """Print which trials differ; return 1 if any does, else 0; and the same for programs."""
    from hpo.study.files.folder import short_path
    from hpo.study.reproduce.replay import compare_trials

    path = short_path(replay.files.folder.trials_path)
    tolerance = replay.files.tolerance
    print("demanded: " + (f"scores within {tolerance:.1%}" if tolerance else "the same to the last bit"))
    trials, differing = compare_trials(replay, short_path(study.folder.trials_path))
    for place, keys in list(differing.items())[:_SHOWN]:
        print(printable(f"trial {place} differs in {', '.join(keys)}"))
    if differing:
        print(f"not replayed: {len(differing)} of {trials} trials differ from {path}")
    else:
        print(f"replayed: all {trials} trials are those of {path}")
    compared = {"of": replay.files.folder.path, "trials": trials, "tolerance": tolerance, "differing": differing}
    return 1 if differing else 0, {"replay": compared}


def _show_dry_run(study: "PreparedStudy") -> int:
    """Print what a search would begin with, where, and what of the user's code would travel; create nothing."""
    from hpo.session.mirroring import refuse_bad_urls
    from hpo.session.surroundings import refuse_bad_surroundings
    from hpo.show.terminal import Terminal
    from hpo.study.opening import refuse_to_open
    from hpo.workers.dispatch.code import code_of

    config, dispatch = study.config, study.config.dispatch
    refuse_bad_surroundings(config)
    num_there, study_id = refuse_to_open(study)
    refuse_bad_urls(config, study.folder, study_id)
    code = code_of(study.objective, str(Path.cwd()))
    state = f"exists, with {num_there} trials" if study.folder.exists else "new"
    workers = 1 if dispatch.type.is_one_at_a_time else dispatch.workers
    folds, repeats, fit = study.num_folds, config.study.repeats, "as many as fit"
    Terminal().announce(study)
    print(f"folder: {study.folder} ({state}); folds: {folds}; repeats: {repeats}; workers: {workers or fit}")
    if code.package is not None:
        print(f"your code: the installed package {code.package}, which every machine must have")
    if code.files:
        if dispatch.address is None:
            print("no other machine is used (dispatch.address=null); if there were one:")
        print(code.in_words())
        for name, path in code.files.items():
            print(f"  {path.stat().st_size:>12,} bytes  {name}")
        for name in (*code.others, *code.links):
            print(f"  {'not sent':>18}  {name}")
    print("checked without starting workers, and nothing was created; without --dry-run this search runs")
    show_json(
        {
            "study": config.study.name,
            "folder": study.folder.path,
            "exists": study.folder.exists,
            "trials": num_there,
            "notes": [*study.own.notes],
            "budget": config.study.trials,
            "counts": study.counts,
            "folds": folds,
            "repeats": repeats,
            "workers": workers,
            "package": code.package,
            "files": [{"name": name, "bytes": path.stat().st_size} for name, path in code.files.items()],
            "not_sent": [*code.others, *code.links],
        }
    )
    return 0
