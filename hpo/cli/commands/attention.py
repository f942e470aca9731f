"""`hpo attention`: draw what each head of a study's winner, or of any checkpoint, attends to while it reads a text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpo.cli.arguments import add_model, make_parser
from hpo.cli.predicting.given_texts import add_texts, one_text_of
from hpo.errors import DataError

_EXAMPLES = """\
  hpo attention reviews --text "not a good film"
  hpo attention reviews --text "not a good film" --output heads.html
  head -n 1 new_reviews.txt | hpo attention reviews --input -
  hpo attention german --text "ein Hund" --target "a dog" --output heads.png"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("attention", __doc__, _EXAMPLES)
    add_model(parser)
    add_texts(parser, "a file of one line, which the model reads")
    parser.add_argument("--target", metavar="TEXT", help="what a decoder reads; left out, what it predicts")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("attention.png"),
        metavar="FILE",
        help=".png or .html (default: %(default)s)",
    )
    given = parser.parse_args(arguments)

    maps = draw(given.model, one_text_of(given), given.target, given.output)
    print(f"{sum(len(one['heads']) for one in maps)} heat maps: {given.output}")
    return 0


def draw(model: str, text: str, target: str | None, output: Path | None) -> Sequence[Mapping[str, Any]]:
    """Return the maps of attention, and write a picture of them; None = write nothing."""
    from hpo.cli.predicting.trained_model import find_model, refuse_bad_output, write_output
    from hpo.report.pages.attention import attention_html, write_attention_png

    if output is not None:
        if output.suffix.lower() not in (".png", ".html"):
            raise DataError(f"--output: must end in .png or .html, given '{output}'")
        refuse_bad_output(output)
    maps = find_model(model).attention(text, target)
    if output is not None and output.suffix.lower() == ".html":
        write_output(output, attention_html(maps, text))
    elif output is not None:
        try:
            write_attention_png(output, maps)
        except OSError as error:
            raise DataError(f"--output: {output}: {error.strerror}") from error
    return maps
