"""`hpo predict`: classify, tag, translate or continue texts with a study's winner or any checkpoint.

One input per line, one result per line, in the same order. A line break inside a result is written as \\n.
"""

from collections.abc import Sequence
from pathlib import Path

from hpo.cli.arguments import add_json, add_model, add_texts, make_parser, texts_of
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo predict reviews --text "not a good film"
  hpo predict reviews --input new_reviews.txt --output labels.txt
  echo "not a good film" | hpo predict reviews --input -
  hpo predict runs/reviews/checkpoints/trial_0003 --input new_reviews.txt
  hpo predict plays --text "ROMEO:" --temperature 0.8 --top-k 40 --max-tokens 300"""

_OPTIONS = {
    "temperature": (float, "X", "below 1 favours likely tokens, above 1 others; 0 always takes the likeliest"),
    "top_k": (int, "K", "draw from the K likeliest tokens only"),
    "top_p": (float, "P", "draw from the fewest likeliest tokens that reach this probability together"),
    "max_tokens": (int, "N", "how many tokens to add"),
    "seed": (int, "N", "the seed of the draws"),
}


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("predict", __doc__, _EXAMPLES)
    add_model(parser)
    add_texts(parser, "one input per line")
    where = "where the results go (default: standard output, as with -)"
    parser.add_argument("--output", type=lambda path: None if path == "-" else Path(path), metavar="FILE", help=where)
    sampling = parser.add_argument_group("for language models")
    for name, (kind, letter, what) in _OPTIONS.items():
        sampling.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=letter, help=what)
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.train import find_model, refuse_bad_output, write_output

    if given.output is not None:
        refuse_bad_output(given.output)
    inputs = texts_of(given)
    options = {name: value for name in _OPTIONS if (value := getattr(given, name)) is not None}
    results = find_model(given.model).predict(inputs, options)
    text = "".join(result.replace("\n", "\\n") + "\n" for result in results)
    if given.output is not None:
        write_output(given.output, text)
    elif not given.json:
        print(text, end="")
    show_json({"model": given.model, "results": results, "output": given.output})
