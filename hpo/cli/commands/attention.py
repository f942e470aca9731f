"""`hpo attention`: draw what each head of a study's winner, or of any checkpoint, attends to while it reads a text."""

from collections.abc import Sequence
from pathlib import Path

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

    from hpo.cli.predicting.trained_model import find_model, refuse_bad_output, write_output
    from hpo.report.pages.attention import attention_html, write_attention_png

    ending = given.output.suffix.lower()
    if ending not in (".png", ".html"):
        raise DataError(f"--output: must end in .png or .html, given '{given.output}'")
    refuse_bad_output(given.output)
    text = one_text_of(given)
    maps = find_model(given.model).attention(text, given.target)
    if ending == ".html":
        write_output(given.output, attention_html(maps, text))
    else:
        try:
            write_attention_png(given.output, maps)
        except OSError as error:
            raise DataError(f"--output: {given.output}: {error.strerror}") from error
    print(f"{sum(len(one['heads']) for one in maps)} heat maps: {given.output}")
    return 0
