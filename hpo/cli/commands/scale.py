"""`hpo scale`: see whether hyperparameters hold when a model grows, by what its layers give."""

from collections.abc import Sequence
from pathlib import Path

from hpo.cli.arguments import add_config, add_json, make_parser, show_config
from hpo.cli.output import show_json
from hpo.cli.tables import show_table

_EXAMPLES = """\
  hpo scale --check data=language_modelling data.path=text.txt model.parametrization=mup
  hpo scale --check --over depth data=translation data.path=pairs.tsv --output check.html
  hpo scale --check objective=spam:run_fold 'study.scales=[{width: 32}, {width: 64}, {width: 128}]'"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code: 1 where the sizes of layers change."""
    parser = make_parser("scale", __doc__, _EXAMPLES)
    either = parser.add_mutually_exclusive_group(required=True)
    what = "the coordinate check: whether what each layer gives, after 1 to 10 steps, depends on the size"
    either.add_argument("--check", action="store_true", help=what)
    what = "what grows where study.scales does not say it: all widths, or the number of layers (default: %(default)s)"
    parser.add_argument("--over", choices=["width", "depth"], default="width", help=what)
    what = ".png or .html (default: %(default)s)"
    parser.add_argument("--output", type=Path, default=Path("coordinate_check.png"), metavar="FILE", help=what)
    add_config(parser)
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)

    if given.cfg:
        from hpo.interface.given.settings import compose_search
        from hpo.study.preparing.scales import with_scales_given

        tree = compose_search(given.overrides, given.config_dir, given.config)
        show_config(with_scales_given(tree, given.over)[0])
        return 0

    from hpo.interface.scale import coordinate_check

    check = coordinate_check(
        *given.overrides,
        over=given.over,
        config_dir=given.config_dir,
        config_file=given.config,
        output=given.output,
    )

    from hpo.report.pages.coordinate_check import slopes_table

    print(f"slope of the logarithm of what a layer gives over that of {check.key}; 0 = it does not change")
    show_table(*slopes_table(check))
    print(check.verdict)
    print(f"picture: {given.output}")
    show_json({**check.to_dict(), "output": given.output})
    return 0 if check.is_within else 1
