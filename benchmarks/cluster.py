"""A study of 100,000 trials on the simulated cluster: the cost of a trial from first to last, and the memory.

The strategy searches through the loop, the record in memory, the table objective and the simulated dispatcher of
`hpo search`. The table of 62,208 networks (../shared/data/tables) is too small for 100,000 different points, so the
space has two more batch sizes and one more learning rate: 108,864 points, of which those without a row fail.
"""

import argparse
import multiprocessing
import resource
import time

from dispatch_clock import FinishTimes
from search_report import conditions, markdown
from search_tables import DATA

from hpo.config.composing.compose import compose_config
from hpo.config.study_config import config_from_dict
from hpo.engine.loop import search
from hpo.study.preparing.preparation import prepare_study
from hpo.trials.record.record import memory_record
from hpo.workers.dispatch.simulated import SimulatedDispatcher

OVERRIDES = (
    "data=table",
    f"data.path={DATA / 'hpolib_protein_structure.csv.gz'}",
    "data.metric=seed*",
    "data.absent=fail",
    "space.batch_size=[8,16,32,64,128,256]",
    "space.init_lr=[0.0001,0.0005,0.001,0.005,0.01,0.05,0.1]",
    "study.direction=minimize",
    "dispatch=simulated",
    "track=none",
)


def measure(strategy: str, trials: int, workers: int) -> list[str]:
    """Run one study and return its row."""
    tree = compose_config("search", [*OVERRIDES, f"strategy={strategy}", f"study.trials={trials}"])
    study = prepare_study(config_from_dict(tree))
    record = memory_record(study.goal, study.layout)
    watch, dispatcher = FinishTimes(time.process_time), SimulatedDispatcher(workers)
    history = search(study.rules(), record, dispatcher, trials, [watch])
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    failed = sum(trial.state == "failed" for trial in history)
    tenths = " ".join(f"{x:.2f}" for x in watch.tenths())
    minutes = (watch.times[-1] - watch.times[0]) / 60
    return [strategy, f"{len(history):,}", f"{failed:,}", tenths, f"{minutes:.1f}", f"{gigabytes:.2f}"]


def main() -> None:
    """Run each study in its own process and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100_000, help="trials a study; default 100,000")
    parser.add_argument("--workers", type=int, default=100, help="simulated workers; default 100")
    parser.add_argument("--strategies", nargs="+", default=["random", "shifting_window", "evolutionary"])
    arguments = parser.parse_args()
    print(conditions() + "\n")
    rows = []
    for strategy in arguments.strategies:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(measure, (strategy, arguments.trials, arguments.workers)))
    head = ["strategy", "trials", "failed", "CPU ms a trial, by tenth of the trials", "CPU minutes", "peak GB"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
