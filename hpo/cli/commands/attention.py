"""`hpo attention`: draw what each head of a study's winner, or of any checkpoint, attends to while it reads a text."""

from collections.abc import Sequence
from pathlib import Path

from hpo.cli.arguments import add_json, add_model, add_texts, make_parser, one_text_of
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo attention reviews --text "not a good film"
  hpo attention reviews --text "not a good film" --output heads.html
  head -n 1 new_reviews.txt | hpo attention reviews --input -
  hpo attention german --text "ein Hund" --target "a dog" --output heads.png"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("attention", __doc__, _EXAMPLES)
    add_model(parser)
    add_texts(parser, "a file of one line, which the model reads")
    parser.add_argument("--target", metavar="TEXT", help="what a decoder reads; left out, what it predicts")
    what = ".png or .html (default: %(default)s)"
    parser.add_argument("--output", type=Path, default=Path("attention.png"), metavar="FILE", help=what)
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.train import draw_attention

    maps = draw_attention(given.model, one_text_of(given), given.target, given.output)
    print(f"{sum(len(one['heads']) for one in maps)} heat maps: {given.output}")
    show_json({"model": given.model, "output": given.output, "maps": maps})
