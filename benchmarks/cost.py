"""How well the cost of a training, counted from its configuration, predicts the seconds that it takes.

Random configurations of our networks are trained on real data (../shared/data), one at a time and with early stopping,
as a search would. Per data set: the correlation of the logarithms of cost and seconds per trial, the standard deviation
of what is left of the logarithm of seconds (sigma 0.3: two predictions of three are off by less than a third).
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from search_report import conditions, markdown

from hpo.config.composing.compose import compose_config
from hpo.config.study_config import config_from_dict
from hpo.engine.dispatch.local import LocalDispatcher
from hpo.engine.loop import search
from hpo.engine.record.record import memory_record
from hpo.engine.trials.trial import Trial
from hpo.report.sections.cost import predict_seconds
from hpo.study.preparing.preparation import prepare_study

DATA = Path(__file__).parents[1].parent / "shared" / "data"
SPACE = (
    "space.first=[]",
    "space.training.batch_size=[16,32,64,128,256]",
    "space.model.num_layers=[1,2,3,4]",
    "space.model.d_model=[32,64,128,256]",
    "+space.model.feed_forward_width=[64,128,256,512,1024]",
)
SETS = {
    "digits": ("training.epochs=12", "training.patience=3"),
    "sst2": (
        "data=text_classification",
        *(f"data.{part}={DATA / 'sst2' / name}.tsv.gz" for part, name in (("train", "train"), ("validation", "dev"))),
        f"data.test={DATA / 'sst2' / 'test.tsv.gz'}",
        "training.epochs=2",
        "training.patience=1",
    ),
    "g2p": (
        "model=encoder_decoder",
        "data=translation",
        "data.tokens=characters",
        "data.target_tokens=blanks",
        *(
            f"data.{part}={DATA / 'g2p' / name}.tsv"
            for part, name in (("train", "hun_train"), ("validation", "hun_dev"))
        ),
        f"data.test={DATA / 'g2p' / 'hun_test.tsv'}",
        "study.metric=token_error_rate",
        "study.direction=minimize",
        "training.epochs=3",
        "training.patience=2",
    ),
}


def measured(name: str, trials: int) -> list[Trial]:
    """Train random configurations on a data set and return their trials."""
    tree = compose_config(
        "search",
        [
            *SETS[name],
            *SPACE,
            "split.folds=1",
            f"study.trials={trials}",
            "strategy=random",
            "track=none",
            "study.lanes=1",
        ],
    )
    study = prepare_study(config_from_dict(tree))
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        assert study.plan is not None
        study.objective.write_development_data(study.config.objective_config, study.plan.development, data_dir)
        builder = replace(study.task_builder(), data_dir=data_dir, states_dir=None, checkpoints_dir=None)
        rules = replace(study.rules(), tasks_of=builder.tasks_of)
        record = memory_record(study.config.study.metric, study.config.study.direction, study.layout)
        history = search(rules, record, LocalDispatcher(), trials)
    return [trial for trial in history if trial.state == "complete"]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=24, help="configurations per data set; default 24")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    arguments = parser.parse_args()
    print(conditions() + "\n")
    rows = []
    for name in arguments.sets:
        trials = measured(name, arguments.trials)
        seconds = sorted(trial.seconds for trial in trials)
        fit = predict_seconds(trials)
        assert fit is not None
        span = f"{seconds[0]:.1f} to {seconds[-1]:.1f}"
        rows.append([name, str(len(trials)), span, f"{fit['correlation']:.3f}", f"{fit['sigma']:.2f}"])
    head = ["data", "trials", "seconds", "correlation", "sigma"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
