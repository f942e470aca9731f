"""`scale`, `hpo.coordinate_check`, `hpo.scale_table`: test whether good hyperparameters stay good in larger models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hpo.commands.arguments import (
    PICTURES,
    ConfigFile,
    ConfigFolder,
    ConfigPrint,
    Overrides,
    Progress,
    Word,
    output_path,
    refuse_without_effect,
    write_output,
)
from hpo.commands.given.settings import Composed, compose_search
from hpo.commands.search import with_its_trials
from hpo.config.composing.overrides import parse_override, written_out
from hpo.config.keys import at, flatten, replaced, within
from hpo.config.shipped import strategy_settings
from hpo.config.study_config import StudyConfig, config_from_dict
from hpo.errors import ConfigError
from hpo.report.sections.scale_table import table_rows
from hpo.report.sections.scale_table import table_text as verdict_text
from hpo.report.sections.scales import scales_of
from hpo.show.display import How, refuse_unknown_progress
from hpo.show.tables import table_text
from hpo.study.coordinate_check import CoordinateCheck, check_coordinates
from hpo.study.files.folder import short_path
from hpo.study.preparing.preparation import prepare_study, with_its_tracker
from hpo.study.preparing.scales import with_scales_given
from hpo.trials import reported_values
from hpo.trials.space.dimensions import Choices
from hpo.trials.space.reader import leaves, parted, space_from_dict

if TYPE_CHECKING:
    from hpo.commands.study import Study
    from hpo.report.sections.scale_table import ScaleTable
    from hpo.session.running import Searched

Growing = Literal["width", "depth"]

# The default learning rates of a table: the configured one times these powers of 2.
_POWERS = (-2, -1, 0, 1, 2, 3)


@dataclass(frozen=True)
class ScaleChecked:
    """A coordinate check, and the path of its picture."""

    check: CoordinateCheck
    output: Path

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if the check fails, else 0.

        The check fails if the output size of a layer changes unexpectedly when the model grows. Expected changes
        (`check.known`) do not count.
        """
        return 0 if self.check.is_within else 1

    def __str__(self) -> str:
        from hpo.report.pages.coordinate_check import slopes_table

        head = f"slope of log(a layer's mean absolute output) over log({self.check.key}); 0 = no change"
        slopes = table_text(*slopes_table(self.check))
        return "\n".join([head, slopes, self.check.verdict, f"picture: {self.output}"])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the coordinate check, and `output`, the path of the picture."""
        return {**self.check.to_dict(), "output": self.output}


@dataclass(frozen=True)
class ScalesTried:
    """The result of a study that trains every value of one hyperparameter at several scales.

    Attributes:
        table: the hyperparameter's `key`, its `values`, the `scores` by scale and value, and the `best` value of each
            scale. The smallest scale is first; `null` = no score. `moves` compares the best values of all scales. If
            `moves_is` is `factor`, `moves` is the largest best value divided by the smallest best value. If `moves_is`
            is `places`, `moves` is the distance of these two values in the list of values. `cost` says how much worse
            the smallest scale's best value is at another scale: (loss at this scale with the smallest scale's best
            value) - (loss at this scale with its own best value). `cost` is for the scale where this difference is
            largest. `cost_error` is the standard error of `cost`.
        verdict: the result as a sentence.
    """

    table: "ScaleTable"
    verdict: str
    _searched: "Searched"
    _text: str

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if no trial is complete at the largest scale, else 0."""
        return self._searched.exit_code

    def __str__(self) -> str:
        return "\n".join([*filter(None, [self._searched.text]), self._text])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the study's view, and two more fields: `table` and `verdict`."""
        return {**self._searched.to_dict(), "table": self.table, "verdict": self.verdict}


def scale(
    overrides: Overrides = (),
    *,
    check: bool = False,
    table: bool = False,
    over: Growing = "width",
    output: Annotated[Path | None, Word("FILE")] = None,
    cfg: ConfigPrint | None = None,
    config_dir: ConfigFolder | None = None,
    config: ConfigFile | None = None,
    progress: Progress = "auto",
) -> "ScaleChecked | ScalesTried | Searched | Composed":
    """Check whether good hyperparameters stay good when a model grows: --check uses layer outputs, --table uses scores.

    Args:
        check: check whether the sizes of layer outputs, after 1 to 10 training steps, depend on the model's size.
        table: train every value of one hyperparameter at every scale (default: six learning rates).
        over: what grows if study.scales is null (default: width). width = every width of the model; depth = the number
            of layers.
        output: with --check, the file for the picture, .png or .html (default: coordinate_check.png).
        progress: with --table: as in `hpo search`; with --check: auto = one line per scale, json or none = only the
            result.

    Raises:
        hpo.HpoError: an argument is not allowed; the message says what is allowed. Nothing was created.

    Examples:
        hpo scale --check data=language_modelling data.path=text.txt model.parametrization=mup
        hpo scale --check --over depth data=translation data.path=pairs.tsv --output check.html
        hpo scale --check objective=spam:run_fold 'study.scales=[{width: 32}, {width: 64}, {width: 128}]'
        hpo scale --table data=language_modelling data.path=text.txt training.max_steps=200 model.parametrization=mup
        hpo scale --table data=digits space.training.lr=[0.001,0.002,0.004,0.008] study.repeats=3
        hpo scale --table objective=spam:run_fold 'study.scales=[{width: 32}, {width: 64}]' space.lr=[0.01,0.1,1.0]
    """
    if check == table:
        raise ConfigError(f"--check, --table: give one of them, given {'both' if check else 'neither'}")
    if table:
        refuse_without_effect({"--output": output}, "with --table, which draws the picture in the study's report")
        tree = table_tree(overrides, over, config_dir, config)
        return Composed(tree) if cfg else _run_table(config_from_dict(tree), progress)
    if cfg:
        return Composed(with_scales_given(compose_search(overrides, config_dir, config), over)[0])
    picture = output or Path("coordinate_check.png")
    places: dict[str, Any] = {"config_dir": config_dir, "config_file": config, "output": picture}
    return ScaleChecked(coordinate_check(*overrides, over=over, progress=progress, **places), picture)


def _run_table(config: StudyConfig, progress: How) -> "ScalesTried | Searched":
    """Run the study of `hpo scale --table`, and return the search's result with the table of scores.

    If no trial is complete, return the search's result without a table.
    """
    study = prepare_study(with_its_tracker(config))
    from hpo.session.running import run_shown

    searched, metric = run_shown(study, progress), study.goal.metric
    report = searched.ended.report if searched.ended else None
    if report is None or not (scales := scales_of(report.summary)):
        return searched
    table = scales["table"]
    rows = table_text(*table_rows(table, [each["changes"] for each in scales["each"]], "{} *"))
    head, verdict = f"{metric} by scale and {table['key']}; * = the best of its scale", verdict_text(table, metric)
    picture = f"picture: {short_path(report.paths[0])}"
    return ScalesTried(table, verdict, searched, "\n".join([head, rows, verdict, picture]))


def coordinate_check(
    *overrides: str,
    over: Growing = "width",
    config_dir: str | None = None,
    config_file: str | None = None,
    output: str | Path | None = None,
    progress: Literal["auto", "json", "none"] | bool = "auto",
) -> CoordinateCheck:
    """Check whether the outputs of layers keep their size when the model grows, as `hpo scale --check` does.

    The check trains ten steps with three seeds at each scale, and saves no model. The scales are `study.scales`, or the
    scales that the objective describes. For the toolkit's network, these are four sizes, each twice as large as the one
    before.

    Args:
        overrides: as in `compose`: `hpo.coordinate_check("data=digits", "model.parametrization=mup")`.
        over: the quantity that grows: `"width"`, or `"depth"`, the number of layers.
        config_dir: as in `compose`.
        config_file: start from this complete configuration, such as a study's config.yaml.
        output: write the picture to this file, a .png or .html.
        progress: `"auto"` = print one line per scale; `False`, `"none"` or `"json"` = print nothing.

    Returns:
        The output sizes of the layers, the slopes of these sizes over the scales, and the result as a sentence
        (`verdict`). `is_within` says whether all slopes are from -0.2 to 0.2; layers whose outputs are known to change
        do not count.

    Raises:
        hpo.HpoError: the objective has no `output_sizes`, or a scale cannot be trained.
    """
    refuse_unknown_progress(progress)
    path = output_path(output, PICTURES)
    tree = compose_search(overrides, config_dir, config_file)
    check = check_coordinates(tree, over, print if progress in (True, "auto") else lambda _: None)
    if path is not None:
        from hpo.report.pages.coordinate_check import coordinate_check_html, coordinate_check_png

        is_page = path.suffix.lower() == ".html"
        write_output(path, coordinate_check_html(check) if is_page else coordinate_check_png(check))
    return check


def scale_table(
    *overrides: str,
    over: Growing = "width",
    config_dir: str | None = None,
    config_file: str | None = None,
    progress: Literal["auto", "json", "none"] | bool = "auto",
) -> "Study":
    """Train every value of one hyperparameter at several scales, as `hpo scale --table` does, and return the study.

    The report of the study has a table of the scores by scale and value, and a picture of this table. For the
    hyperparameter training.lr, `study.trials.pivot_table("score", "study.scale", "training.lr")` is the same table.

    By default, the scales are those of `coordinate_check`. The values are six learning rates, from a quarter of the
    configured rate to 8 times this rate. Each point has one trial. The study's name is `scale-table-NAME`, where NAME
    is the configured name.

    Args:
        overrides: as in `compose`: `hpo.scale_table("data=digits", "space.training.lr=[0.001,0.002,0.004]")`.
        over: the quantity that grows: `"width"`, or `"depth"`, the number of layers.
        config_dir: as in `compose`.
        config_file: start from this complete configuration, such as a study's config.yaml.
        progress: how progress is shown, as in `hpo.search`.

    Raises:
        hpo.HpoError: an argument is not allowed; the message says what is allowed. Nothing was created.
    """
    from hpo.commands.study import run

    config = config_from_dict(table_tree(overrides, over, config_dir, config_file))
    return run(prepare_study(with_its_trials(config)), progress)


def table_tree(
    overrides: Sequence[str], over: Growing, config_dir: str | None = None, config_file: str | None = None
) -> dict[str, Any]:
    """Return the complete configuration of the study that `scale_table` creates."""
    parsed = [parse_override(written_out(text)) for text in overrides]
    given = [override.key_or_group for override in parsed if not override.is_delete()]
    tree, _, known = with_scales_given(compose_search(overrides, config_dir, config_file), over)
    if not any(within(key, "strategy") for key in given):
        tree["strategy"] = strategy_settings({"name": "grid"})
    if tree["strategy"].get("name") != "grid":
        raise ConfigError(
            f"strategy: must be grid, given {tree['strategy'].get('name')}; a scale table trains every value "
            f"at every scale, so leave strategy out"
        )
    tree["space"] = _space(tree, given, known.rate if known else None)
    if "study.name" not in given:
        tree = replaced(tree, {"study.name": f"scale-table-{tree['study']['name']}"})
    config = config_from_dict(tree)
    return tree if "study.trials" in given else replaced(tree, {"study.trials": _num_points(config)})


def _space(tree: Mapping[str, Any], given: Sequence[str], rate: str | None) -> dict[str, Any]:
    """Return the space of a scale table, which has one hyperparameter.

    With overrides `space.KEY`, take the hyperparameters at these keys. With an override `space`, or if `rate` is None,
    take all hyperparameters of the configured space. Otherwise, take six values of the learning rate with the key
    `rate`. Raise ConfigError if this gives no hyperparameter, or several.
    """
    searched = {".".join(path): dimension for path, dimension in leaves(parted(tree["space"])[0])}
    named = [key.removeprefix("space.") for key in given if key.startswith("space.")]
    if named:
        searched = {key: dimension for key, dimension in searched.items() if any(within(key, one) for one in named)}
    elif rate is not None and "space" not in given:
        own = reported_values.number(at(flatten(tree), rate))
        if not own or own < 0:
            raise ConfigError(
                f"{rate}: must be above 0, given {own}; a scale table multiplies this rate by powers of 2"
            )
        searched = {rate: {"values": [float(f"{own * 2.0**power:.6g}") for power in _POWERS]}}
    if len(searched) != 1:
        given_keys = f"{len(searched)}: {', '.join(searched)}" if searched else "none"
        raise ConfigError(
            f"space: must have one hyperparameter, given {given_keys}; a scale table tries all values of one "
            f"hyperparameter at every scale; give for example space.{rate or 'lr'}=[0.001,0.002,0.004]"
        )
    return replaced({}, searched)


def _num_points(config: StudyConfig) -> int:
    space = space_from_dict(config.space, flatten(config.objective_config))
    (dimension,) = space.dimensions
    if isinstance(dimension, Choices):
        raise ConfigError(f"space.{dimension.key}: must have ordered values, given choices; give numbers")
    # The grid refuses a space of infinite size.
    return (space.size or 1) * len(config.study.scales or ())
