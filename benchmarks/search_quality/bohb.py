"""BOHB (HpBandSter) as a peer of by_cost.py: run by the Python of its own environment, which has no need of ours.

Its config generator and its brackets of Hyperband, with their defaults, in the order of its master with one worker.
Questions and answers are lines of JSON on the standard streams: by_cost.py first says the seed, the space and the
amounts, then whether a drawn configuration can be trained, and how well it does after an amount.

    python -m venv bohb && bohb/bin/pip install hpbandster 'ConfigSpace<0.5'    (Python 3.8)

Source: Falkner, Klein & Hutter 2018, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale".
"""

import itertools
import json
import logging
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import ConfigSpace
import numpy as np
from hpbandster.core.dispatcher import Job
from hpbandster.optimizers.bohb import BOHB
from hpbandster.optimizers.config_generators.bohb import BOHB as ConfigGenerator  # noqa: N811


def ask(*question: Any) -> Any:
    """Return the answer to a question."""
    print(json.dumps(question, default=lambda value: value.item()), flush=True)
    return json.loads(sys.stdin.readline())


def main() -> None:
    """Search until by_cost.py ends the process."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    setup = ask("begin")
    np.random.seed(setup["seed"])
    configurations = ConfigSpace.ConfigurationSpace(seed=setup["seed"])
    kinds = {
        "float": lambda key, low, high, log: ConfigSpace.UniformFloatHyperparameter(key, low, high, log=log),
        "integer": lambda key, low, high, _: ConfigSpace.UniformIntegerHyperparameter(key, low, high),
        "choice": lambda key, _, high, __: ConfigSpace.CategoricalHyperparameter(key, range(high + 1)),
    }
    for key, (kind, *ends) in setup["space"].items():
        configurations.add_hyperparameter(kinds[kind](key, *ends))
    generator = ConfigGenerator(configspace=configurations)

    def draw(budget: float) -> Any:
        """Return a configuration that can be trained: after so many vain draws the answer is another one."""
        while True:
            config, info = generator.get_config(budget)
            answer = ask("draw", config)
            if answer is not None:
                return answer, info

    amounts = setup["amounts"]
    master = SimpleNamespace(
        max_SH_iter=len(amounts), eta=setup["eta"], budgets=amounts, config_generator=SimpleNamespace(get_config=draw)
    )
    for number in itertools.count():
        bracket = BOHB.get_next_iteration(master, number)
        while True:
            run = bracket.get_next_run()
            if run is None:
                break
            name, config, budget = run
            job = Job(name, config=config, budget=budget)
            job.result = {"loss": ask("train", config, budget), "info": {}}
            bracket.register_result(job)
            generator.new_result(job)


if __name__ == "__main__":
    main()
