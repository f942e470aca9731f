"""What people of W&B sweeps type."""

from tests.hpo.interface.searched import found


def test_groups_of_metrics_are_one_metric_each():
    def train(config, trial):
        trial.report({"val": {"loss": 2 * config["lr"]}})
        trial.report({"val": {"loss": config["lr"], "text": "left out"}})

    study = found(train, metric="val/loss", direction="minimize", trials=2)
    assert study.best.score == study.best.config["lr"]
