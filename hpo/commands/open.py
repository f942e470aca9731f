"""`hpo.open`: a study whose trials are asked for and told, since they are trained where there is no worker."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from hpo.commands.given.objective import space_of
from hpo.commands.given.objects import Objects
from hpo.commands.given.settings import made_config, plain_space, refuse_missing_direction, settings_of
from hpo.commands.resume import changed_config
from hpo.commands.search import refusing_as_typed, with_its_trials
from hpo.commands.session import Session
from hpo.config.composing.references import plain_config
from hpo.errors import ConfigError
from hpo.objectives.outside import OUTSIDE
from hpo.session.program import interrupted_in_one_line
from hpo.study.files.folder import find_study
from hpo.study.preparing.preparation import load_study, prepare_study


@interrupted_in_one_line()
@refusing_as_typed()
def open(  # noqa: A001 -- it is called hpo.open
    space: Mapping[str, Any] | Callable[..., Any] | None = None,
    *,
    name: str,
    config: Mapping[str, Any] | None = None,
    trials: int | None = None,
    strategy: str | Mapping[str, Any] | None = None,
    metric: str | Mapping[str, Literal["maximize", "minimize"]] | None = None,
    direction: Literal["maximize", "minimize"] | None = None,
    limits: Mapping[str, Any] | None = None,
    choose: str | Mapping[str, Any] | None = None,
    scales: Sequence[Mapping[str, Any]] | None = None,
    score: Literal["best", "last"] | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Session:
    """Open a study whose trials are asked for and told: they are trained elsewhere, by whatever means.

    A new study, or one that exists unchanged, which goes on: what was asked for and not told is still open. It is a
    study as every other: record, report, MLflow, `hpo compare`.

    Args:
        space: as of `hpo.search`; None = that of the study of this name, which exists.
        name: the study's, a folder under runs/.
        config, trials, strategy, metric, direction, limits, choose, scales, score, seed, settings: as of `hpo.search`;
            of a study that exists and whose space is not given only `trials` and `settings`.

    Returns:
        The session, which has the study's lock until it is closed.

    Raises:
        hpo.HpoError: something given cannot be, or another process has the study; nothing was created.
    """
    asked: dict[str, Any] = {"trials": trials, "seed": seed, "direction": direction, "score": score}
    asked |= {"limits": limits, "choose": choose, "scales": scales}
    strategy = "ladder" if strategy is None and scales is not None else strategy
    settings = settings_of(settings or {}, metric, **asked)
    if space is None:
        given = {"config": config, "strategy": strategy}
        if needless := [argument for argument, value in given.items() if value is not None]:
            raise ConfigError(f"{needless[0]}: is known of a study that exists; give space, too, for a new one")
        folder = find_study(name)
        return Session(load_study(name, changed_config(folder, settings)))
    refuse_missing_direction(settings)
    plain, references = plain_config(config)
    objects = Objects()
    plain = {} if plain is None else plain
    searched, constants = objects.space(space_of(space), plain), objects.config(plain)
    searched = plain_space(searched, constants)
    settings = {"dispatch": "local", "study.name": name, **settings}
    made = made_config(OUTSIDE, searched, constants, references, strategy, settings)
    return Session(prepare_study(with_its_trials(made)), objects)
