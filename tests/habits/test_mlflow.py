"""What people of MLflow and Lightning type."""

import mlflow
import pytest

from tests.hpo.interface.searched import found, outcome_of


def train(config, trial):
    for epoch in range(2):
        trial.report({"epoch": epoch, "val": {"loss": config["lr"] / (epoch + 1), "top": {"5": 0.5}}})
    return {"val": {"loss": config["lr"], "top": {"5": 1}}}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's own.
def test_groups_of_metrics_are_one_metric_each_everywhere():
    study = found(train, metric="val/loss", direction="minimize", settings={"track": "mlflow"}, trials=2)
    assert study.best.score == study.best.config["lr"] == study.trials["score"].min()
    assert outcome_of(study).metrics["val/top/5"] == 1
    assert "val/loss" in (study.folder / "report.md").read_text()
    client = mlflow.MlflowClient("sqlite:///mlflow.db")
    runs = client.search_runs([client.get_experiment_by_name("hpo").experiment_id])
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert {"fold_0/val/loss", "fold_0/val/top/5"} <= children[0].data.metrics.keys()
