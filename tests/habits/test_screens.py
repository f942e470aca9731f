"""What people read on a screen or a printed page: scores are told apart."""

import re

import pytest

import hpo

QUIET = {"track": "none", "dispatch": "local"}


def small(config):
    return config["lr"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("scale", "lowest"), [(1e-9, r"1\.0+e-9"), (1e9, r"1\.0+e9"), (1.0, r"1"), (1.1, r"1\.1000"), (0.1, r"0\.1000")]
)
def test_scores_of_any_size_are_told_apart_everywhere(tmp_path, monkeypatch, capsys, scale, lowest):
    monkeypatch.chdir(tmp_path)
    space = {"lr": [factor * scale for factor in (1, 2, 3, 4, 5)]}
    study = hpo.search(
        small, space=space, strategy="grid", metric="mse", direction="minimize", trials=5, settings=QUIET
    )
    out = capsys.readouterr().out
    shown = re.findall(r"trial \d+ +mse (\S+)", out)[:5]
    assert len(set(shown)) == 5
    assert all(len(text) <= 9 for text in shown)
    assert re.search(rf"winner: trial \d+, mse {lowest}$", out, re.M)
    page = study.report(latex=True, checklist=True).page
    for name in ("report.md", "report.html", "tables.tex", "checklist.md"):
        assert re.search(lowest, (page.parent / name).read_text()), name
    assert re.search(lowest, study._repr_html_())


@pytest.mark.nightly
def test_what_there_is_none_of_is_left_out_of_the_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {"lr": (0.1, 1.0), "depth": [2, None]}
    given = {"trials": 2, "direction": "maximize", "settings": QUIET, "progress": False}
    for config, fixed, default in ({}, None, None), ({"lr": 0.5, "k": 3}, "`k=3`", "0.5"):
        study = hpo.search(small, space=space, config=config, **given)
        page = (study.folder / "report.md").read_text()
        assert re.findall(r"^Fixed: (.*)\.$", page, re.M) == ([fixed] if fixed else [])
        assert re.findall(r"`lr` .*; default (\S+)", page) == ([default] if default else [])
        assert "default None" not in page.partition("`depth`")[0]
