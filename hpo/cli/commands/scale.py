"""`hpo scale`: see whether hyperparameters hold when a model grows, by its layers or its scores."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.cli.arguments import add_config, add_json, make_parser, show_config
from hpo.cli.output import show_json
from hpo.cli.searching import add_progress
from hpo.show.tables import show_table

if TYPE_CHECKING:
    from hpo.report.sections.scales import ScalesPart

_EXAMPLES = """\
  hpo scale --check data=language_modelling data.path=text.txt model.parametrization=mup
  hpo scale --check --over depth data=translation data.path=pairs.tsv --output check.html
  hpo scale --check objective=spam:run_fold 'study.scales=[{width: 32}, {width: 64}, {width: 128}]'
  hpo scale --table data=language_modelling data.path=text.txt training.max_steps=200 model.parametrization=mup
  hpo scale --table data=digits space.training.lr=[0.001,0.002,0.004,0.008] study.repeats=3
  hpo scale --table objective=spam:run_fold 'study.scales=[{width: 32}, {width: 64}]' space.lr=[0.01,0.1,1.0]"""
_PICTURE = Path("coordinate_check.png")


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code: 1 where the sizes of layers change, or no trial is complete."""
    parser = make_parser("scale", __doc__, _EXAMPLES)
    either = parser.add_mutually_exclusive_group(required=True)
    what = "the coordinate check: whether what each layer gives, after 1 to 10 steps, depends on the size"
    either.add_argument("--check", action="store_true", help=what)
    what = "a study of every value of one hyperparameter at every size, by default of six learning rates"
    either.add_argument("--table", action="store_true", help=what)
    what = "what grows where study.scales does not say it: all widths, or the number of layers (default: %(default)s)"
    parser.add_argument("--over", choices=["width", "depth"], default="width", help=what)
    what = f"with --check: .png or .html (default: {_PICTURE})"
    parser.add_argument("--output", type=Path, metavar="FILE", help=what)
    add_config(parser)
    add_progress(parser)
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)
    if given.table and given.output:
        parser.error("--output: has no effect with --table, whose picture is in the study's report")
    return _check(given) if given.check else _table(given)


def _check(given: argparse.Namespace) -> int:
    if given.cfg:
        from hpo.commands.given.settings import compose_search
        from hpo.study.preparing.scales import with_scales_given

        tree = compose_search(given.overrides, given.config_dir, given.config)
        show_config(with_scales_given(tree, given.over)[0])
        return 0

    from hpo.commands.scale import coordinate_check
    from hpo.report.pages.coordinate_check import slopes_table

    output, how = given.output or _PICTURE, {"over": given.over, "progress": given.progress == "auto"}
    places = {"config_dir": given.config_dir, "config_file": given.config, "output": output}
    check = coordinate_check(*given.overrides, **how, **places)
    print(f"slope of the logarithm of what a layer gives over that of {check.key}; 0 = it does not change")
    show_table(*slopes_table(check))
    print(check.verdict)
    print(f"picture: {output}")
    show_json({**check.to_dict(), "output": output})
    return 0 if check.is_within else 1


def _table(given: argparse.Namespace) -> int:
    from hpo.commands.scale import table_tree
    from hpo.config.study_config import config_from_dict

    tree = table_tree(given.overrides, given.over, given.config_dir, given.config)
    if given.cfg:
        show_config(tree)
        return 0

    from hpo.report.sections.scales import scales_of
    from hpo.study.files.folder import short_path
    from hpo.study.preparing.preparation import prepare_study, with_its_tracker

    study = prepare_study(with_its_tracker(config_from_dict(tree)))
    from hpo.session.running import run_shown

    ended = run_shown(study, given.progress).ended
    assert ended is not None
    scales, metric = scales_of(ended.report.summary), study.goal.metric
    shown = _show_table(scales, metric) if scales else {}
    print(f"picture: {short_path(ended.report.paths[0])}")
    show_json({**ended.view.to_dict(), **shown})
    return 0 if ended.view.best else 1


def _show_table(scales: "ScalesPart", metric: str) -> dict[str, Any]:
    """Print what the report says of the scores by scale and value, and return it for programs."""
    from hpo.report.sections.scale_table import table_rows, table_text

    table = scales["table"]
    print(f"{metric} by scale and {table['key']}; * = the best of its scale")
    show_table(*table_rows(table, [each["changes"] for each in scales["each"]], "{} *"))
    verdict = table_text(table, metric)
    print(verdict)
    return {"table": table, "verdict": verdict}
