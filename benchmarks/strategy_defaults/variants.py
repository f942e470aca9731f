"""Which settings are good defaults: shifting windows and evolution, one setting changed at a time.

Each variant searches the measured tables (../shared/data/tables) and two halves of made-up problems
(synthetic_tables.py). Defaults were chosen on the measured tables and the choosing half; the held-out half says whether
they are good elsewhere. Regret is normalised per problem, (best found - optimum) / (median - optimum), at 10, 30 and
100 trials, and averaged over the problems; lower is better. The results and conclusions are in
README.md beside this file.

Every finished search is a row of the file `--results`, so that a stopped run continues where it stopped.
"""

import argparse
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.search_quality.report import BUDGETS
from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions, markdown
from benchmarks.shared.rows import append, read
from benchmarks.shared.workers import losses
from benchmarks.strategy_defaults.synthetic_tables import Problem, problems
from hpo.engine.strategies import make_strategy

SUITES = ("shared", "choosing", "held-out")
# Searches of a measured table for each of a synthetic problem: there are five measured tables and eighteen problems.
SHARED_FACTOR = 4

Settings = dict[str, Any]


def _changes(config: str, **variants: Settings) -> dict[str, tuple[str, Settings]]:
    return {f"{config}: {name.replace('_', ' ')}": (config, changes) for name, changes in variants.items()}


VARIANTS: dict[str, tuple[str, Settings]] = {
    "random": ("random", {}),
    "shifting_window: the lecture's": ("shifting_window_literal", {}),
    "evolutionary: the lecture's": ("evolutionary_plain", {}),
    "shifting_window: the defaults": ("shifting_window", {}),
    "evolutionary: the defaults": ("evolutionary", {}),
    **_changes(
        "shifting_window",
        half_of_the_dimensions_at_once={"moving": 0.5},
        all_dimensions_at_once={"moving": 1.0},
        windows_of_three={"window": 3, "range_window": 0.34},
        opening_in_the_middle_window={"opening": "window", "window": 3, "range_window": 0.34},
        credit_by_mean={"credit": "mean"},
        credit_by_median={"credit": "median"},
        first_round_of_4={"first_draws": 4},
        first_round_of_10={"first_draws": 10},
        rounds_of_2={"draws": 2},
        rounds_of_4={"draws": 4},
        rounds_of_8={"draws": 8},
        rounds_of_16={"draws": 16},
        first_draws_of_16={"first_draws": 16},
    ),
    **_changes(
        "evolutionary",
        pending_points_do_not_count={"penalize_pending": False},
        patience_of_96_in_all={"patience": None},
        every_child_is_trained={"candidates": 1},
        the_best_of_4_candidates={"candidates": 4},
        the_best_of_16_candidates={"candidates": 16},
        the_best_of_32_candidates={"candidates": 32},
        the_best_of_64_candidates={"candidates": 64},
        steps_of_one_value={"mutation_steps": 1},
        no_crossover={"crossover": 0.0},
        one_survivor={"surviving": 0.17},
        three_survivors={"surviving": 0.5},
        first_population_at_random={"opening": "random"},
        population_of_10_with_3_survivors={"population": 10},
        mutation_of_a_third={"mutation": 0.33},
        mutation_scale_of_a_fifth={"mutation_scale": 0.2},
        generations_of_2={"children": 2},
        generations_of_4={"children": 4},
        generations_of_8={"children": 8},
        generations_of_16={"children": 16},
        population_of_16_with_5_survivors={"population": 16},
    ),
}
FIELDS = ("variant", "lanes", "suite", "problem", "seed", *(f"regret_{budget}" for budget in BUDGETS))


@cache
def suite_of(name: str) -> list[Problem]:
    """Return the problems of a suite, made once."""
    return problems(name)


def regrets(problem: Problem, variant: str, lanes: int, seed: int) -> list[float]:
    """Return the normalised regrets of one search at the budgets."""
    config, changes = VARIANTS[variant]
    settings = strategy_settings(config) | changes
    strategy: Any = make_strategy(settings, problem.space, seed)
    found = losses(strategy, problem.loss, max(BUDGETS), lanes, seed, problem.optimum)
    return [(min(found[:b]) - problem.optimum) / (problem.median - problem.optimum) for b in BUDGETS]


def run_missing(path: Path, variants: list[str], all_lanes: list[int], repeats: int, first: int) -> None:
    """Run every search that is missing in the results: all variants on all problems of a seed before the next seed."""
    done = {(row["variant"], int(row["lanes"]), row["suite"], row["problem"], int(row["seed"])) for row in read(path)}
    seeds = range(repeats * SHARED_FACTOR)
    for place, lanes, variant, suite in itertools.product(seeds, all_lanes, variants, SUITES):
        seed = first + place
        for problem in suite_of(suite) if suite == "shared" or place < repeats else ():
            key = (variant, lanes, suite, problem.name, seed)
            if key not in done:
                row = (*key, *regrets(problem, variant, lanes, seed))
                append(path, FIELDS, dict(zip(FIELDS, row, strict=True)))


def report(rows: list[Mapping[str, str]]) -> str:
    """Return the table: one line per variant and its numbers of lanes, one column per suite with the mean regrets."""
    of_problem: dict[tuple[str, str, str], dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found = [float(row[f"regret_{budget}"]) for budget in BUDGETS]
        of_problem[row["variant"], row["lanes"], row["suite"]][row["problem"]].append(found)
    all_lanes = sorted({row["lanes"] for row in rows}, key=int)
    lines: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for variant, lanes in itertools.product(VARIANTS, all_lanes):
        lines[variant, *_cells(of_problem, variant, lanes)].append(lanes)
    # What learns by rounds, or not at all, is the same on any number of lanes.
    rows = [[variant, ", ".join(lanes), *cells] for (variant, *cells), lanes in lines.items() if all(cells)]
    return markdown(["variant", "lanes", *SUITES], rows)


def _cells(of_problem: Mapping[Any, Mapping[str, list[list[float]]]], variant: str, lanes: str) -> Iterator[str]:
    """Yield per suite the means and half the 95 % interval: the problems are fixed, the searches are the sample."""
    for suite in SUITES:
        problem_rows = [np.array(found) for found in of_problem.get((variant, lanes, suite), {}).values()]
        if not problem_rows:
            yield ""
            continue
        means = np.mean([found.mean(axis=0) for found in problem_rows], axis=0)
        variances = np.sum([found.var(axis=0, ddof=1) / len(found) for found in problem_rows], axis=0)
        halves = 1.96 * np.sqrt(variances) / len(problem_rows)
        texts = [f"{mean:.3f}±{half:.3f}" for mean, half in zip(means, halves, strict=True)]
        yield " ".join(text.replace("0.", ".") for text in texts)


def main() -> None:
    """Run what is missing and print the summary of all results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True, help="CSV file that collects the finished searches")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="default: all")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 4, 8, 32], help="default: 1 4 8 32")
    parser.add_argument("--repeats", type=int, default=20, help="searches of a made-up problem; default 20")
    parser.add_argument("--first-seed", type=int, default=0, help="of the searches; default 0")
    arguments = parser.parse_args()
    run_missing(arguments.results, arguments.variants, arguments.lanes, arguments.repeats, arguments.first_seed)
    print(conditions())
    print(f"\nNormalised regret at {', '.join(map(str, BUDGETS))} trials, and half its 95 % interval.\n")
    print(report(read(arguments.results)))


if __name__ == "__main__":
    main()
