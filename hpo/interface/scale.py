"""`hpo.coordinate_check`: whether hyperparameters can hold when a model grows, on any data and any model."""

from pathlib import Path
from typing import Literal

from hpo.interface.given.settings import compose_search
from hpo.interface.train import refuse_bad_picture, write_output
from hpo.study.coordinate_check import CoordinateCheck, check_coordinates

Growing = Literal["width", "depth"]


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
