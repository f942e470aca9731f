"""`hpo predict` and `hpo attention` on a real, small study of texts, and what they refuse."""

import contextlib
import io
import json
import re
import sys
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.cli.main import main
from hpo.report.pages.attention import attention_html, write_attention_png
from tests.hpo.cli.commands import QUICK, documented, hpo, printed, refused

TINY = (*QUICK, "training.batch_size=8", "training.lr=0.01", "model.num_heads=2")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a finished study of texts, `reviews`, and one of a trainer that keeps no models, `plain`."""
    folder = tmp_path_factory.mktemp("looking")
    with contextlib.chdir(folder):
        lines = [f"the film {n % 7} was {'good' if n % 2 else 'bad'}\t{'yes' if n % 2 else 'no'}\n" for n in range(60)]
        Path("reviews.tsv").write_text("".join(lines))
        Path("trainer.py").write_text("def run_fold(task):\n    return {'accuracy': task['config']['a']}\n")
        data = ("data=text_classification", "data.path=reviews.tsv", "split.folds=1", "study.name=reviews")
        learning = ("training.epochs=12", "space.training.lr=[0.01,0.02]")
        assert main(["search", *TINY, *data, *learning]) == 0
        none = ("model=none", "data=none", "training=none", "space=none", "study.trials=1", "study.name=plain")
        own = ("objective=trainer:run_fold", "+a=1", "+space.a=[1,2]", "dispatch=local", "track=none")
        assert main(["search", *none, *own]) == 0
    return folder


@pytest.fixture(autouse=True)
def in_its_folder(finished, monkeypatch):
    monkeypatch.chdir(finished)


def answer_to_stdin(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.slow
def test_answers_and_maps_for_programs(capsys, tmp_path):
    predicted, _ = printed(capsys, "predict", "reviews", "--text", "the film was good")
    assert predicted == {"model": "reviews", "results": ["yes"], "output": None}
    assert set(predicted) == documented("hpo predict")
    looked, _ = printed(capsys, "attention", "reviews", "--text", "good", "--output", str(tmp_path / "heads.html"))
    assert set(looked) == documented("hpo attention")
    assert all(one["heads"] for one in looked["maps"])


def test_from_python_the_results_are_sequences_and_no_file_is_written_unasked():
    study, before = toolkit.load("reviews"), {*Path().iterdir()}
    assert [*study.predict(["the film was good"])] == [*study.predict(text="the film was good")] == ["yes"]
    assert all(one["heads"] for one in study.attention("good"))
    assert {*Path().iterdir()} == before
    for given in ({}, {"text": "good", "input_": "new.txt"}):
        with pytest.raises(toolkit.HpoError, match="--text, --input: give one of them"):
            study.predict(**given)
    with pytest.raises(toolkit.HpoError, match="text, input_: have no effect with inputs"):
        study.predict(["good"], text="bad")


@pytest.mark.slow
def test_the_winner_answers_each_line_of_a_file(capsys, tmp_path):
    Path("new.txt").write_text("bad film\r\nthe film was good\n", newline="")
    assert hpo(capsys, "predict", "reviews", "--input", "new.txt") == (0, "no\nyes\n", "")
    labels = tmp_path / "labels.txt"
    assert hpo(capsys, "predict", "reviews", "--input", "new.txt", "--output", str(labels)) == (0, "", "")
    assert hpo(capsys, "predict", "reviews", "--input", "new.txt", "--output", "-") == (0, labels.read_text(), "")
    assert not Path("-").exists()
    assert labels.read_text() == "no\nyes\n"


@pytest.mark.slow
def test_standard_input_a_checkpoint_folder_and_what_hpo_train_leaves_do_as_well(capsys, monkeypatch):
    assert hpo(capsys, "train", "--config", "runs/reviews/best.yaml")[0] == 0
    (trained,) = {path.parent for path in Path("runs").glob("*/checkpoint")}
    for folder in (*Path("runs/reviews/checkpoints").glob("trial_*"), trained):
        answer_to_stdin(monkeypatch, "a good film\nbad")
        assert hpo(capsys, "predict", str(folder), "--input", "-") == (0, "yes\nno\n", "")


def test_only_the_options_that_are_given_are_handed_on_and_a_result_stays_on_its_line(capsys, monkeypatch):
    import model.objective

    seen = []
    monkeypatch.setattr(model.objective, "predict", lambda *given: seen.append(given) or ["one\ntwo", "three"])
    (checkpoint,) = map(str, Path("runs/reviews/checkpoints").glob("trial_*"))
    answer_to_stdin(monkeypatch, "ROMEO:\n To be\n")
    options = ("--temperature", "0", "--max-tokens", "7")
    assert hpo(capsys, "predict", checkpoint, "--input", "-", *options) == (0, "one\\ntwo\nthree\n", "")
    assert seen == [(checkpoint, ["ROMEO:", " To be"], {"temperature": 0.0, "max_tokens": 7})]


def test_both_commands_read_a_text_a_file_or_a_pipe(capsys, monkeypatch, tmp_path):
    line, both = tmp_path / "line.txt", tmp_path / "both.txt"
    line.write_text("a good film\n")
    both.write_text("a good film\nbad\n")
    for given in (["--text", "a good film"], ["--input", str(line)], ["--input", "-"]):
        drawn = ("attention", "reviews", *given, "--output", str(tmp_path / "heads.html"))
        answer_to_stdin(monkeypatch, "a good film")
        assert hpo(capsys, *drawn) == (0, f"2 heat maps: {tmp_path / 'heads.html'}\n", "")
        assert "a good film" in (tmp_path / "heads.html").read_text()
        answer_to_stdin(monkeypatch, "a good film")
        assert hpo(capsys, "predict", "reviews", *given) == (0, "yes\n", "")
    code, _, err = hpo(capsys, "attention", "reviews", "--input", str(both))
    assert (code, err) == (2, f"error: --input: {both}: must have one line, has 2; give one of them\n")
    for command in ("predict", "attention"):
        assert (
            hpo(capsys, command, "reviews")[0] == hpo(capsys, command, "reviews", "--text", "a", "--input", "b")[0] == 2
        )


@pytest.mark.parametrize("text", ["the film was bad", "bad " * 100])
@pytest.mark.parametrize("command", ["predict", "attention"])
def test_a_text_in_the_place_of_a_file_is_refused_with_the_option_that_takes_it(capsys, command, text):
    err = refused(capsys, command, "reviews", "--input", text)
    assert err.startswith(f"error: --input: {text}: ")
    assert "give a file, or the text itself by --text" in err


def test_attention_is_drawn_as_a_picture_and_as_a_page(capsys, tmp_path):
    for name in ("heads.png", "heads.html"):
        words = ("attention", "reviews", "--text", "the film was <bad>", "--output", str(tmp_path / name))
        code, out, err = hpo(capsys, *words)
        assert (code, err) == (0, "")
        assert out == f"2 heat maps: {tmp_path / name}\n"
    assert (tmp_path / "heads.png").read_bytes().startswith(PNG)
    page = (tmp_path / "heads.html").read_text()
    assert "the film was &lt;bad&gt;" in page
    # No address: the policy, which is not one, forbids the page to load anything.
    assert "http" not in page.replace("<meta http-equiv=", "", 1)
    assert "default-src 'none';" in page
    maps = json.loads(re.search(r"const maps = (.*);", page)[1])
    assert maps[0]["rows"] == ["the", "film", "was", "<unknown>", "bad", "<unknown>"]


def test_any_token_can_be_drawn(tmp_path):
    """Formulas, signs without a glyph, white space, the page's own marks, and more tokens than labels fit."""
    tokens = ["$x_$", "日本", "\n", " ", "</script><b>", "<!--", "%MAPS%", "%TEXT%"] * 6
    heads = [[[1 / len(tokens)] * len(tokens)] * len(tokens)] * 2
    maps = [
        {"name": "encoder layer 0", "rows": tokens, "columns": tokens, "heads": heads},
        {"name": "cross-attention layer 0", "rows": ["a"], "columns": tokens, "heads": [heads[0][:1]]},
    ]
    write_attention_png(tmp_path / "any.png", maps)
    assert (tmp_path / "any.png").read_bytes().startswith(PNG)
    page = attention_html(maps, "%MAPS%")
    assert page.count("</script>") == 1
    assert json.loads(re.search(r"const maps = (.*);", page)[1])[0]["rows"] == tokens


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (["predict", "plain", "--input", "new.txt"], ["study 'plain' saves no models"]),
        (["attention", "plain", "--text", "good"], ["study 'plain' saves no models"]),
        (["predict", "reviews", "--input", "gap.txt"], ["input 2: must not be empty"]),
        (["predict", "reviews", "--input", "new.txt", "--top-k", "3"], ["top_k: has no effect"]),
        (["predict", "reviews", "--input", "new.txt", "--output", "no/x.txt"], ["output: folder 'no' does not exist"]),
        (["attention", "reviews", "--text", "good", "--target", "yes"], ["target: has no effect on a model of"]),
        (["attention", "reviews", "--text", " "], ["input: must not be empty"]),
    ],
    ids=lambda value: " ".join(value) if value[0] in ("predict", "attention") else "",
)
def test_bad_input_is_refused_in_one_line(capsys, words, messages):
    Path("new.txt").write_text("bad film\n")
    Path("gap.txt").write_text("good\n\nbad\n")
    err = refused(capsys, *words, is_silent=True)
    assert all(message in err for message in messages), err


def test_an_objective_that_cannot_look_inside_is_refused(capsys, finished, monkeypatch):
    import model.objective

    monkeypatch.delattr(model.objective, "predict")
    monkeypatch.delattr(model.objective, "attention")
    for command in ("predict", "attention"):
        words = (command, "reviews", "--text", "good")
        assert hpo(capsys, *words)[::2] == (
            2,
            f"error: {command}: model.objective has no function '{command}'; see "
            "docs/extending/write_an_objective.md\n",
        )
