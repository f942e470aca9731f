"""The default configuration of a search: the point that its configuration has for what is searched."""

from hpo.config.goals import SCALE
from hpo.config.keys import flatten
from hpo.config.study_config import StudyConfig
from hpo.errors import SpaceError
from hpo.trials.space.first_points import NoDefaultError, default_point
from hpo.trials.space.space import Point, Space


def default_of(space: Space, config: StudyConfig) -> Point | None:
    """Return the default configuration's point, with scales that at the target; None where it is not in the space."""
    try:
        return default_at_target(space, config)
    except SpaceError:
        return None


def default_at_target(space: Space, config: StudyConfig) -> Point:
    """Return the same point; NoDefaultError where there is no default, SpaceError where it is not in the space."""
    point = default_point(space, flatten(config.objective_config))
    return point if config.study.scales is None else {**point, SCALE: len(config.study.scales)}


def why_no_default(space: Space, config: StudyConfig) -> str | None:
    """Return why there is no default configuration to train; None where there is one, in the space or not."""
    try:
        default_at_target(space, config)
    except NoDefaultError as error:
        return f"there is no default configuration: {error.key} has no value but those that are searched"
    except SpaceError:
        pass
    return None
