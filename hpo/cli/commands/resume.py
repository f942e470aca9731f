"""`hpo resume`: continue a study from its frozen configuration; later edits of the configuration cannot leak in."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpo.cli.arguments import add_overrides, add_trust, make_parser
from hpo.errors import ConfigError

if TYPE_CHECKING:
    from hpo.config.study_config import StudyConfig
    from hpo.study.folder import StudyFolder

_EXAMPLES = """  hpo resume digits
  hpo resume digits study.trials=40 dispatch.workers=4
  hpo resume digits track=none dispatch=local     shown nowhere, and trained in this process
  hpo resume digits --as deeper study.trials=40   the same trials, and more, as a study of its own
  hpo resume reviews data.path=there.csv          the data lie elsewhere now
  hpo resume s3://bucket/digits                   from its copy (study.mirror), on any machine
  hpo resume s3://bucket/digits --trust           the same, unasked where it was not made on this machine
  hpo resume digits --allow-changes          although code, data or configuration changed; the report says what"""

# conf/track has it: in the working directory, so it goes nowhere.
_OWN_STORE = "sqlite:///mlflow.db"


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    what = "a larger budget or other workers: study.trials=..., dispatch.workers=..., track=none, dispatch=local"
    parser = make_parser("resume", __doc__, _EXAMPLES)
    parser.add_argument("study", metavar="STUDY", help="its name under runs/, its folder, or the URL of its mirror")
    add_overrides(parser, what)
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="continue although something has changed since; the report says what",
    )
    parser.add_argument("--as", dest="name", metavar="NEW", help="continue with a copy that is a separate study")
    add_trust(parser, "with a URL")
    given = parser.parse_intermixed_args(arguments)

    is_url = "://" in given.study
    if given.trust and not is_url:
        parser.error("--trust has no effect without a URL: a study under runs/ is yours")
    if is_url:
        from hpo.study.mirror.restore import restore

        folder = restore(given.study)
        print(f"copied to {folder}")
    else:
        from hpo.study.folder import find_study

        folder = find_study(given.study)

    from hpo.cli.running import run_at_terminal
    from hpo.config.composing.compose import compose_config
    from hpo.config.study_config import config_from_dict
    from hpo.study.preparation import load_study

    changed = config_from_dict(compose_config("search", given.overrides, config_file=str(folder.config_path)))
    if is_url:
        _ask(folder, changed, given.study, given.trust)
    if given.name is not None:
        from hpo.study.copy import continued_as

        return run_at_terminal(continued_as(folder, given.name, changed, given.allow_changes))
    _tell_copy(folder, changed.study.name)
    return run_at_terminal(load_study(str(folder), changed, given.allow_changes))


def _ask(folder: "StudyFolder", changed: "StudyConfig", url: str, is_trusted: bool) -> None:
    """Ask before anything of a study that came from a URL, and was not made here, is imported or run."""
    from hpo.config.keys import flatten
    from hpo.interface.trust import ask_for_trust
    from hpo.study.folder import short_path

    config = folder.config()
    theirs, now = _addresses(config), _addresses(changed)
    # Those that the user has given on the command line are his own.
    places = [f"{key}={address}" for key, address in theirs.items() if address == now[key] not in (None, url)]
    own = flatten(changed.dispatch.environment)
    packages = [
        f"dispatch.environment.{key}={value!r}"
        for key, value in flatten(config.dispatch.environment).items()
        if key in own and own[key] == value
    ]
    try:
        ask_for_trust(config, (), is_trusted, folder.kept_function(config), places=places, packages=packages)
    except ConfigError as error:
        name = folder.path.name
        raise ConfigError(
            f"{error}; it was only copied: read {short_path(folder.config_path)}, and `hpo resume {name}` goes on with "
            f"it"
        ) from error


def _addresses(config: "StudyConfig") -> dict[str, str | None]:
    """Return where a search of this configuration sends what it finds, by key."""
    track = config.track
    return {
        "study.mirror": config.study.mirror,
        "study.artifacts": config.study.artifacts,
        "study.storage": config.study.storage,
        "track.uri": track.uri if track.name == "mlflow" and track.uri != _OWN_STORE else None,
        "dispatch.address": config.dispatch.address,
    }


def _tell_copy(folder: "StudyFolder", name: str) -> None:
    if folder.path.name != name:
        print(
            f"{folder} holds study '{name}': as a copy it shares its name and its run in MLflow with the original; "
            f"`hpo resume {folder} --as NEW` makes it a study of its own"
        )
