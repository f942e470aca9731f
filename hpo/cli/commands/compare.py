"""`hpo compare`: which strategy is better at equal budget, and how sure that is; or how studies that exist differ."""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hpo.cli.arguments import add_json, make_parser
from hpo.cli.output import show_json
from hpo.cli.searching import add_progress
from hpo.errors import ConfigError, nearest

if TYPE_CHECKING:
    from hpo.compare.run import Compared

_EXAMPLES = """\
  hpo compare --strategies grid,random,shifting_window,evolutionary,tpe --repeats 30 \\
      data=table data.path=measured.csv data.metric=dev_bleu study.trials=100 dispatch=local
  hpo compare --strategies random,evolutionary --repeats 10 study.trials=20     real trainings, on Ray workers
  hpo compare --strategies evolutionary,large=evolutionary --set large.population=20 data=table ...
  hpo compare --strategies random,evolutionary 'study.metrics={accuracy: maximize, parameters: minimize}' ...
  hpo compare digits windows                                                    studies that exist, one search each
"""

_ONLY_WITH_STRATEGIES = ("repeats", "set", "config_dir", "config", "at_seconds")
_REPEATS = 30


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    given = _parser().parse_intermixed_args(arguments)
    compared = (_compare_studies if given.strategies is None else _compare_strategies)(given)

    from hpo.report.write import publish_comparison

    published = publish_comparison(compared.folder, compared.folder.name) if given.publish else []
    for path in published:
        print(path)
    paths = [path.absolute() for path in (*compared.paths, *published)]
    show_json({"folder": compared.folder, "files": paths, **compared.result})
    return 0 if compared.has_result else 1


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("compare", __doc__, _EXAMPLES)
    what = "studies (names under runs/, or folders); with --strategies: key=value, group=name, as in hpo search"
    parser.add_argument("what", nargs="*", metavar="STUDY|OVERRIDE", help=what)
    add, whole = parser.add_argument, _number(int, "whole")
    add("--strategies", metavar="A,B", help="search with each of them; LABEL=NAME gives one another label")
    what = f"how many searches with each strategy, repeat r with study.seed + r (default: {_REPEATS})"
    add("--repeats", type=whole, metavar="N", help=what)
    add("--set", metavar="LABEL.KEY=VALUE", action="append", default=[], help="a setting of one strategy")
    add("--at", type=_list(whole), default=[], metavar="N,N", help="compare after so many trials too")
    what = "and after so many seconds of training; shortest = of the shortest search"
    add("--at-seconds", type=_list(_seconds), default=[], metavar="S,S", help=what)
    what = "the best score there is, for regret; a table's own is known; not with several metrics"
    add("--optimum", type=_number(float, "finite"), metavar="SCORE", help=what)
    add("--name", help="the folder under runs/ (default: compare- and the study's name)")
    add("--publish", action="store_true", help="copy what others need into studies/<name>/")
    add("--config-dir", metavar="DIR", help="a folder with configuration groups of your own")
    add("--config", metavar="FILE", help="start from this whole configuration; compose nothing")
    add_progress(parser)
    add_json(parser)
    return parser


def _number(kind: Callable[[str], float], what: str) -> Callable[[str], Any]:
    """Return what reads an argument that is a number of this kind."""

    def read(text: str) -> float:
        with suppress(ValueError):
            if math.isfinite(number := kind(text)):
                return number
        raise argparse.ArgumentTypeError(f"must be a {what} number, given '{text}'")

    return read


def _seconds(text: str) -> float | str:
    # `shortest` means the length of the shortest search, which is known only when all are finished.
    return text if text == "shortest" else float(_number(float, "finite")(text))


def _list(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    return lambda given: [read(text.strip()) for text in given.split(",") if text.strip()]


def _compare_strategies(given: argparse.Namespace) -> "Compared":
    from hpo.compare.comparison import ANY_STRATEGY, prepare_comparison
    from hpo.compare.run import run_comparison
    from hpo.config.study_config import config_from_dict

    tree, strategies = _compose(given, _labels(given.strategies))
    repeats = _REPEATS if given.repeats is None else given.repeats
    config = config_from_dict({**tree, "strategy": ANY_STRATEGY})
    comparison = prepare_comparison(config, strategies, repeats, given.name)
    return run_comparison(comparison, given.at, given.at_seconds, given.optimum, given.progress)


def _compose(
    given: argparse.Namespace, names: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """Return the configuration of the searches, and by label the settings of each strategy."""
    from hpo.commands.given.settings import compose_given, compose_search
    from hpo.config.shipped import names_of

    for override in given.what:
        key = override.lstrip("+~").partition("=")[0]
        if key == "strategy" or key.startswith("strategy."):
            raise ConfigError(f"{key}: is chosen by --strategies, and set by --set LABEL.KEY=VALUE; given '{override}'")
        if "=" not in override and not override.startswith("~"):
            raise ConfigError(
                f"STUDY: '{override}' has no place beside --strategies; give key=value, or no --strategies"
            )
    shipped = names_of("strategy")
    settings = {
        label: [f"strategy={name}"] if name in shipped else ["strategy=own", f"strategy.name={name}"]
        for label, name in names.items()
    }
    for text in given.set:
        label, _, setting = text.partition(".")
        if label not in settings or "=" not in setting:
            raise ConfigError(
                f"--set: must be LABEL.KEY=VALUE with a label of --strategies ({', '.join(settings)}), given "
                f"'{text}'{nearest(label, settings)}"
            )
        # What a strategy of the user's own may be given is in its class.
        settings[label].append(f"{'' if names[label] in shipped else '++'}strategy.{setting}")
    # Not tracked: a tracker shows studies, and of these many searches only scores and seconds are kept.
    silent = [] if any(text.startswith("track") for text in given.what) else ["track.name=none"]
    overrides = [*silent, *given.what]
    tree = compose_search(overrides, given.config_dir, given.config)
    # A strategy's settings may refer to the other overrides; with --config those are not composed.
    others = [] if given.config else overrides
    of_label = {label: compose_given("search", [*others, *own], given.config_dir) for label, own in settings.items()}
    return tree, {label: own["strategy"] for label, own in of_label.items()}


def _compare_studies(given: argparse.Namespace) -> "Compared":
    from hpo.compare.run import run_studies
    from hpo.study.files.folder import RUNS

    for name in _ONLY_WITH_STRATEGIES:
        if getattr(given, name) not in (None, []):
            option = name.replace("_", "-")
            raise ConfigError(f"--{option}: has no effect on studies that exist; give --strategies, or leave it out")
    for word in given.what:
        if "=" in word:
            raise ConfigError(
                f"STUDY: must be a name under {RUNS}/ or a folder, given '{word}'; overrides need --strategies"
            )
    return run_studies(given.what, given.at, given.optimum, given.name)


def _labels(given: str) -> dict[str, str]:
    """Return the name of each strategy by its label."""
    names: dict[str, str] = {}
    for text in _list(str)(given):
        label, _, name = text.partition("=")
        if ":" in label:
            # A class of the user's own.
            label, name = label.rpartition(":")[2], label
        if not label.replace("_", "").replace("-", "").isalnum():
            raise ConfigError(f"--strategies: a label is letters, digits, '_' and '-', given '{label}'")
        if label in names:
            raise ConfigError(f"--strategies: '{label}' is listed twice; give one another label: LABEL={label}")
        names[label] = name or label
    return names
