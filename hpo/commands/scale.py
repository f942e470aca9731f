"""`hpo.coordinate_check` and `hpo.scale_table`: whether hyperparameters hold when a model grows, on any data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from hpo.commands.given.settings import compose_search
from hpo.commands.search import with_its_trials
from hpo.commands.study import Study, run
from hpo.commands.train import refuse_bad_picture, write_output
from hpo.config.composing.overrides import parse_override, written_out
from hpo.config.keys import at, flatten, replaced, within
from hpo.config.shipped import strategy_settings
from hpo.config.study_config import StudyConfig, config_from_dict
from hpo.errors import ConfigError
from hpo.study.coordinate_check import CoordinateCheck, check_coordinates
from hpo.study.preparing.preparation import prepare_study
from hpo.study.preparing.scales import with_scales_given
from hpo.trials import reported_values
from hpo.trials.space.dimensions import Choices
from hpo.trials.space.reader import leaves, parted, space_from_dict

Growing = Literal["width", "depth"]

# Of the rates that a table tries where the user gives none, the powers of 2 by which they differ from the own one.
_POWERS = (-2, -1, 0, 1, 2, 3)


def coordinate_check(
    *overrides: str,
    over: Growing = "width",
    config_dir: str | None = None,
    config_file: str | None = None,
    output: str | Path | None = None,
    progress: bool = True,
) -> CoordinateCheck:
    """Check whether what each layer gives stays when the model grows, as `hpo scale --check` does.

    At each scale (`study.scales`, else four of the toolkit's network, each twice as large as the one before) it trains
    some steps with three seeds, and keeps nothing.

    Args:
        overrides: as of `compose`: `hpo.coordinate_check("data=digits", "model.parametrization=mup")`.
        over: what grows: `"width"`, or `"depth"`, the number of layers.
        config_dir: as of `compose`.
        config_file: start from this whole configuration, such as a study's config.yaml.
        output: write the picture to this file, a .png or .html.
        progress: whether a line is printed for each scale.

    Returns:
        The sizes, their slopes, whether all are within 0.2 of 0 (`is_within`), and that as a sentence (`verdict`).

    Raises:
        hpo.HpoError: it cannot be checked: the objective has no `output_sizes`, or a scale cannot be trained.
    """
    path = None if output is None else Path(output)
    if path is not None:
        refuse_bad_picture(path)
    tree = compose_search(overrides, config_dir, config_file)
    check = check_coordinates(tree, over, print if progress else lambda _: None)
    if path is not None:
        # Here, since plotly and matplotlib load slowly.
        from hpo.report.pages.coordinate_check import coordinate_check_html, coordinate_check_png

        is_page = path.suffix.lower() == ".html"
        write_output(path, coordinate_check_html(check) if is_page else coordinate_check_png(check))
    return check


def scale_table(
    *overrides: str,
    over: Growing = "width",
    config_dir: str | None = None,
    config_file: str | None = None,
    progress: bool = True,
) -> Study:
    """Train every value of one hyperparameter at several scales, as `hpo scale --table` does, and return that study.

    Its report has the table and its picture; `study.trials.pivot_table("score", "study.scale", "training.lr")` is the
    same table. What the overrides do not say is: the scales as of `coordinate_check`; six learning rates, each twice
    the one before, around the configured one; as many trials as there are points; and the name `scale-table-NAME`.

    Args:
        overrides: as of `compose`: `hpo.scale_table("data=digits", "space.training.lr=[0.001,0.002,0.004]")`.
        over: what grows: `"width"`, or `"depth"`, the number of layers.
        config_dir: as of `compose`.
        config_file: start from this whole configuration, such as a study's config.yaml.
        progress: whether it is shown.

    Raises:
        hpo.HpoError: it cannot be trained; one line that says what is allowed. Nothing was created.
    """
    config = config_from_dict(table_tree(overrides, over, config_dir, config_file))
    return run(prepare_study(with_its_trials(config)), progress)


def table_tree(
    overrides: Sequence[str], over: Growing, config_dir: str | None = None, config_file: str | None = None
) -> dict[str, Any]:
    """Return the whole configuration of the study that `scale_table` makes."""
    parsed = [parse_override(written_out(text)) for text in overrides]
    given = [override.key_or_group for override in parsed if not override.is_delete()]
    tree, _, known = with_scales_given(compose_search(overrides, config_dir, config_file), over)
    if not any(within(key, "strategy") for key in given):
        tree["strategy"] = strategy_settings({"name": "grid"})
    if tree["strategy"].get("name") != "grid":
        raise ConfigError(
            f"strategy: `hpo scale --table` trains every value at every scale, which is grid, given "
            f"{tree['strategy'].get('name')}; leave it out"
        )
    tree["space"] = _space(tree, given, known.rate if known else None)
    if "study.name" not in given:
        tree = replaced(tree, {"study.name": f"scale-table-{tree['study']['name']}"})
    config = config_from_dict(tree)
    return tree if "study.trials" in given else replaced(tree, {"study.trials": _num_points(config)})


def _space(tree: Mapping[str, Any], given: Sequence[str], rate: str | None) -> dict[str, Any]:
    """Return the space of one key: what the overrides say of it, else the learning rates, else what is there."""
    searched = {".".join(path): dimension for path, dimension in leaves(parted(tree["space"])[0])}
    named = [key.removeprefix("space.") for key in given if key.startswith("space.")]
    if named:
        searched = {key: dimension for key, dimension in searched.items() if any(within(key, one) for one in named)}
    elif rate is not None and "space" not in given:
        own = reported_values.number(at(flatten(tree), rate))
        if not own or own < 0:
            raise ConfigError(f"{rate}: must be a number above 0, around which others are tried")
        searched = {rate: {"values": [float(f"{own * 2.0**power:.6g}") for power in _POWERS]}}
    if len(searched) != 1:
        what = f"{len(searched)} are searched: {', '.join(searched)}" if searched else "none is searched"
        raise ConfigError(
            f"space: `hpo scale --table` tries the values of one hyperparameter at every scale, and {what}; give one, "
            f"such as space.{rate or 'lr'}=[0.001,0.002,0.004]"
        )
    return replaced({}, searched)


def _num_points(config: StudyConfig) -> int:
    space = space_from_dict(config.space, flatten(config.objective_config))
    (dimension,) = space.dimensions
    if isinstance(dimension, Choices):
        raise ConfigError(f"space.{dimension.key}: its values must have an order, given choices; give numbers")
    # Without a number of points a grid refuses it.
    return (space.size or 1) * len(config.study.scales or ())
