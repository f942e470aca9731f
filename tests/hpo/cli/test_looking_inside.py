"""`hpo predict` and `hpo attention` on a real, small study of texts, and what they refuse."""

import contextlib
import io
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.report.pages.attention import attention_html, write_attention_png
from tests.hpo.cli.commands import QUICK, documented, hpo, main, printed, refused
from tests.hpo.commands.searched import found, refuses

TINY = (*QUICK, "training.batch_size=8", "training.lr=0.01", "model.num_heads=2")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a study of texts, `reviews`, and one that saves no models, `plain`."""
    folder = tmp_path_factory.mktemp("looking")
    with contextlib.chdir(folder):
        lines = [f"the film {n % 7} was {'good' if n % 2 else 'bad'}\t{'yes' if n % 2 else 'no'}\n" for n in range(60)]
        Path("reviews.tsv").write_text("".join(lines))
        Path("one.txt").write_text("a good film\n")
        Path("two.txt").write_text("bad film\r\nthe film was good\n", newline="")
        data = ("data=text_classification", "data.path=reviews.tsv", "split.folds=1", "study.name=reviews")
        assert main(["search", *TINY, *data, "training.epochs=12", "space.training.lr=[0.01,0.02]"]) == 0
        found(lambda config: config["a"], space={"a": [1, 2]}, trials=1, name="plain")
        Path("trained/checkpoint").mkdir(parents=True)
        Path("trained/config.yaml").write_text("a: 1")
        shutil.copytree("runs/reviews", "runs/lost")
        shutil.rmtree("runs/lost/checkpoints")
    return folder


@pytest.fixture(autouse=True)
def in_its_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def answer_to_stdin(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.slow
def test_both_commands_read_a_text_a_file_or_a_pipe(capsys, monkeypatch, tmp_path):
    heads = str(tmp_path / "heads.html")
    for given in (["--text", "a good film"], ["--input", "one.txt"], ["--input", "-"]):
        answer_to_stdin(monkeypatch, "a good film")
        assert hpo(capsys, "attention", "reviews", *given, "--output", heads) == (0, f"2 heat maps: {heads}\n", "")
        assert "a good film" in Path(heads).read_text()
        answer_to_stdin(monkeypatch, "a good film")
        assert hpo(capsys, "predict", "reviews", *given) == (0, "yes\n", "")


def test_the_winner_answers_each_line_of_a_file(capsys, tmp_path):
    labels, command = tmp_path / "labels.txt", ("predict", "reviews", "--input", "two.txt")
    assert hpo(capsys, *command) == hpo(capsys, *command, "--output", "-") == (0, "no\nyes\n", "")
    for _ in ("a new file", "an existing file"):
        assert hpo(capsys, *command, "--output", str(labels)) == (0, "", "")
    assert labels.read_text() == "no\nyes\n"
    predicted, _ = printed(capsys, *command)
    assert predicted == {"model": "reviews", "results": ["no", "yes"], "output": None}
    assert set(predicted) == documented("hpo predict")


def test_a_checkpoint_folder_and_what_hpo_train_leaves_answer_as_well(capsys, monkeypatch):
    assert hpo(capsys, "train", "--config", "runs/reviews/best.yaml")[0] == 0
    (trained,) = {path.parent for path in Path("runs").glob("*/checkpoint")}
    for folder in (*Path("runs/reviews/checkpoints").glob("trial_*"), trained):
        answer_to_stdin(monkeypatch, "a good film\nbad")
        assert hpo(capsys, "predict", str(folder), "--input", "-") == (0, "yes\nno\n", "")


def test_from_python_the_results_are_sequences_and_no_file_is_written_unasked():
    study, before = toolkit.load("reviews"), {*Path().iterdir()}
    assert [*study.predict(["the film was good"])] == [*study.predict(text="the film was good")] == ["yes"]
    assert all(one["heads"] for one in study.attention("good"))
    assert {*Path().iterdir()} == before
    refuses("text, input_: have no effect if `inputs` is given", study.predict, ["good"], text="bad")


def test_only_the_options_that_are_given_reach_the_model_and_a_result_stays_on_its_line(capsys, monkeypatch):
    import model.objective

    seen = []
    monkeypatch.setattr(model.objective, "predict", lambda *given: seen.append(given) or ["one\ntwo", "three"])
    (checkpoint,) = map(str, Path("runs/reviews/checkpoints").glob("trial_*"))
    answer_to_stdin(monkeypatch, "ROMEO:\n To be\n")
    options = ("--temperature", "0", "--max-tokens", "7")
    assert hpo(capsys, "predict", checkpoint, "--input", "-", *options) == (0, "one\\ntwo\nthree\n", "")
    assert seen == [(checkpoint, ["ROMEO:", " To be"], {"temperature": 0.0, "max_tokens": 7})]


def test_attention_is_drawn_as_a_picture_and_as_a_page(capsys, tmp_path):
    for name in ("heads.png", "heads.html"):
        words = ("attention", "reviews", "--text", "the film was <bad>", "--output", str(tmp_path / name))
        drawn, _ = printed(capsys, *words)
        assert set(drawn) == documented("hpo attention")
        assert all(one["heads"] for one in drawn["maps"])
    assert (tmp_path / "heads.png").read_bytes().startswith(PNG)
    page = (tmp_path / "heads.html").read_text()
    assert ("the film was &lt;bad&gt;" in page, "default-src 'none';" in page) == (True, True)
    maps = json.loads(re.search(r"const maps = (.*);", page)[1])
    assert maps[0]["rows"] == ["the", "film", "was", "<unknown>", "bad", "<unknown>"]


def test_any_token_can_be_drawn_and_none_ends_the_script_of_the_page(tmp_path):
    tokens = ["</script><b>", "<!--", "%MAPS%", "$x_$", "日本", "\n", " "] * 6
    maps = [{"name": "encoder", "rows": tokens, "columns": ["a"], "heads": [[[1.0]] * len(tokens)]}]
    write_attention_png(tmp_path / "any.png", maps)
    assert (tmp_path / "any.png").read_bytes().startswith(PNG)
    page = attention_html(maps, "%MAPS%")
    assert page.count("</script>") == 1
    assert json.loads(re.search(r"const maps = (.*);", page)[1])[0]["rows"] == tokens


@pytest.mark.parametrize(("words", "message"), [
    (["predict", "reviews"], "text, input"),
    (["attention", "reviews", "--text", "a", "--input", "b"], "text, input"),
    (["attention", "reviews", "--input", "two.txt"], "input: two.txt: must have one line, given 2"),
    (["predict", "reviews", "--input", "the film"], "input: the film .*, or the text itself"),
    (["predict", "reviews", "--input", "two.txt", "--output", "two.txt"], "must be another file than `input`"),
    (["predict", "plain", "--input", "two.txt"], "study 'plain' cannot predict, because"),
    (["predict", "reviews", "--input", "two.txt", "--top-k", "3"], "top_k: has no effect"),
    (["predict", "reviews", "--input", "two.txt", "--output", "no/x.txt"], "output: folder 'no' does not exist"),
    (["attention", "reviews", "--text", "a", "--target", "yes"], "target: has no effect on a model with data="),
    (["predict", "trained", "--text", "a"], "model: trained/config.yaml names no objective; restore the file"),
    (["predict", "lost", "--text", "a"], "'lost' has no final model of its winner, or the model was changed; "),
])  # fmt: skip
def test_bad_input_is_refused_in_one_line(capsys, words, message):
    assert re.search(message, refused(capsys, *words, is_silent=True))


def test_an_objective_that_cannot_look_inside_is_refused(capsys, monkeypatch):
    for name in ("predict", "attention"):
        monkeypatch.delattr(f"model.objective.{name}")
        says = refused(capsys, name, "reviews", "--text", "good", is_silent=True)
        assert f"{name}: model.objective has no function '{name}'; see docs/extending/write_an_objective.md" in says
