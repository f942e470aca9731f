"""`hpo.open`: trials are asked for and told, and the study is one like every other."""

import math
import multiprocessing
import pickle
import re
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import hpo
from tests.hpo.commands.searched import HERE, SPACE, found, score

UNSEEN = {"track": "none"}


def opened(**arguments):
    settings = UNSEEN | arguments.pop("settings", {})
    given = {"space": SPACE, "name": "lab", "trials": 6, "direction": "maximize"} | arguments
    return hpo.open(**given, settings=settings)


@pytest.mark.quick("evolutionary")
@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["evolutionary", "hyperband"])
def test_one_trial_after_another_is_the_search_by_one_worker(strategy):
    """The reference is `hpo.search` in free order, which knows all that ended before."""

    @hpo.objective(continues=True)
    def train(config, trial):
        return score(config) + (trial.amount or 0)

    settings = {"name": strategy} | ({"max_amount": 4, "eta": 2} if strategy == "hyperband" else {})
    with opened(strategy=settings, trials=9) as session:
        for trial in session:
            session.tell(trial, train(trial.config, trial))
    searched = found(train, trials=9, strategy=settings, settings=HERE | {"study.order": "free"})
    columns = ["number", "score", "lr", "net.layers", "net.act", "dropout", "state"]
    assert session.study.trials[columns].equals(searched.trials[columns])
    assert session.study.best.point == searched.best.point


def test_values_are_those_that_a_function_gets():
    kinds = {"big": dict, "small": list}
    with opened(space={"lr": (0.0, 1.0), "net": {"kind": hpo.choices(**kinds)}}, config={"size": (3, 4)}) as session:
        trial = session.ask()
        assert trial.config == {"lr": trial["lr"], "net": {"kind": trial["net.kind"]}, "size": (3, 4)}
        assert trial.point == {"lr": trial["lr"], "net.kind": trial["net"]["kind"]}
        assert trial["net.kind"] in kinds.values()
        assert trial.amount is None
        with pytest.raises(KeyError):
            trial["nothing"]


def test_what_was_told_is_in_the_record_at_once_and_what_was_not_is_still_open():
    session = opened()
    told, left, failed = session.ask(), session.ask(), session.ask()
    session.tell(told, {"score": 0.5, "seconds": 12})
    left.report(0.25, step=3)
    # Another reader, while the session goes on.
    trials = hpo.load("lab").trials
    assert trials["state"].tolist() == ["complete", "running", "running"]
    assert (trials["score"][0], trials["seconds"][0], session.best.number) == (0.5, 12, 0)
    with pytest.raises(hpo.HpoError, match=r"is open in process \d+ .*`session.close\(\)`"):
        opened()
    session.close()
    with opened() as session:
        assert [trial.point for trial in session.open_trials] == [left.point, failed.point]
        session.tell(failed.number, error="out of\nmemory")
        session.tell(left.number)
        assert session.open_trials == []
        unknown = "was not asked for"
        has_result = (left.number, r"has a result already \(complete\)")
        for number, why in (has_result, *((number, unknown) for number in (7, "1", True, 1.5, [1]))):
            with pytest.raises(hpo.HpoError, match=f"trial {re.escape(repr(number))}: {why}; open trials: none"):
                session.tell(number, 1.0)
    trials = session.study.trials
    assert trials["state"].tolist() == ["complete", "complete", "failed"]
    assert trials["score"][1] == 0.25
    assert trials["error"][2] == "fold 0: out of memory"


def test_a_point_of_ones_own_is_asked_for_next():
    own = {"lr": 0.5, "net.layers": 2, "net.act": "tanh", "dropout": 0.125}
    with opened(strategy="evolutionary") as session:
        first = session.ask()
        session.add(own)
        with pytest.raises(hpo.HpoError, match="is already added"):
            session.add(own)
        # Nobody answers requests of other processes here, and nobody waits for it.
        for act in (lambda: session.study.add({**own, "lr": 0.25}), lambda: session.study.resume(9)):
            with pytest.raises(hpo.HpoError, match=r"is open in .* process \d+ .*accepts no requests"):
                act()
        assert session.ask().point == own
        session.tell(first, 1.0)
    assert session.study.status.state == "open"
    session.study.add({**own, "lr": 0.25})
    with opened(strategy="evolutionary") as session:
        assert session.ask().point == {**own, "lr": 0.25}


def test_a_budget_ends_it_and_a_larger_one_goes_on():
    with opened(trials=2) as session:
        assert [trial.number for trial in session] == [0, 1]
        with pytest.raises(hpo.NoTrialError, match=r"the budget of 2 is used up.*; open trials: 0, 1") as raised:
            session.ask()
        assert not raised.value.is_waiting
        assert not session.is_over
        for trial in session.open_trials:
            session.tell(trial, math.nan if trial.number else 0.5)
        assert session.is_over
    session.close()
    with pytest.raises(hpo.HpoError, match="is closed; open it again"):
        session.ask()
    assert session.study.trials["state"].tolist() == ["complete", "failed"]
    with hpo.open(name="lab", trials=3) as session:
        assert [trial.number for trial in session] == [2]
    with opened(trials=2) as session:
        assert [trial.number for trial in session.open_trials] == [2]


@pytest.mark.slow
def test_a_strategy_of_rounds_says_what_it_waits_for():
    halving = {"name": "successive_halving", "max_amount": 4, "eta": 2}
    with opened(strategy=halving, trials=20) as session:
        with pytest.raises(hpo.NoTrialError, match="the strategy waits for the results of trials 0, 1, 2, 3") as raised:
            list(session)
        assert raised.value.is_waiting
        first = session.open_trials
        assert {trial.amount for trial in first} == {1}
        for trial in first:
            session.tell(trial, trial["lr"])
        further = session.ask()
        best = max(first, key=lambda trial: trial["lr"])
        assert (further.point, further.amount, further.trained, further.continues) == (best.point, 2, 1, best.number)


@pytest.mark.slow
def test_the_median_rule_says_when_to_stop():
    with opened(trials=7, settings={"study.stop_rule": "median"}) as session:
        good = [session.ask() for _ in range(5)]
        for trial in good:
            trial.report(1.0)
            assert not trial.should_stop
            session.tell(trial)
        behind = session.ask()
        behind.report(0.5)
    with opened(trials=7, settings={"study.stop_rule": "median"}) as session:
        (behind,) = session.open_trials
        assert behind.should_stop
        assert session.tell(behind) == {"state": "stopped", "score": 0.5, "error": None}
        ahead = session.ask()
        ahead.report(2.0)
        assert not ahead.should_stop


def test_places_rise_and_are_counted_on_from_what_a_trial_continues():
    asha = {"name": "asha", "min_amount": 2, "max_amount": 6, "eta": 3}
    with opened(trials=4, strategy=asha) as session:
        for _ in range(3):
            trial = session.ask()
            trial.report(0.9)
            trial.report(0.5)
            session.tell(trial)
        trial = session.ask()
        assert (trial.amount, trial.trained) == (6, 2)
        trial.report(0.7)
    with opened(trials=4, strategy=asha) as session:
        (trial,) = session.open_trials
        trial.report(0.6)
        session.tell(trial)
        # Of all places the first one of the trial that it continues is the best.
        trials = session.study.trials
        assert trials["reached"].tolist() == [2, 2, 2, 4]
        assert trials["score"].tolist() == [0.9] * 4
        trial = session.ask()
        trial.report(0.1, 5)
        with pytest.raises(hpo.HpoError, match="must be above 5, that of the previous report, given 5"):
            trial.report(0.2, 5)
        with pytest.raises(hpo.HpoError, match="must have epoch in all reports"):
            trial.report(0.2)


def test_several_metrics_and_limits_are_told_by_name_or_in_order():
    metrics = {"accuracy": "maximize", "latency": "minimize"}
    with opened(direction=None, metric=metrics, limits={"memory": 8}, trials=4) as session:
        for told in [(1, 2), {"accuracy": 1, "latency": 1}]:
            trial = session.ask()
            assert trial.metrics == ("accuracy", "latency", "memory")
            with pytest.raises(hpo.HpoError, match="must have a number for accuracy, latency, memory"):
                session.tell(trial, told)
        first, second = session.open_trials
        session.tell(first, {"accuracy": 1.0, "latency": 1.0, "memory": 9})
        session.tell(second, {"accuracy": 0.5, "latency": 1.0, "memory": 8})
        assert session.best.number == second.number


def test_what_is_about_trainings_here_is_refused(tmp_path):
    given = {"repeats": 2, "finalists": 2, "minutes": 2.0, "trial_minutes": 2.0, "stop_after_failures": 2}
    for key, value in given.items():
        with pytest.raises(hpo.HpoError, match=rf"{key}: has no effect on a study .* trains, given 2"):
            opened(settings={f"study.{key}": value})
    assert not (tmp_path / "runs").exists()


ELSEWHERE = {
    "a forked process": lambda: ProcessPoolExecutor(1, multiprocessing.get_context("fork")),
    "a thread": lambda: ThreadPoolExecutor(1),
}


@pytest.mark.parametrize("place", ELSEWHERE)
def test_elsewhere_than_where_it_was_opened_each_call_is_refused(place):
    with opened() as session:
        trial = session.ask()
        calls["all"] = {
            "ask": session.ask,
            "add": lambda: session.add({"lr": 0.5}),
            "tell": lambda: session.tell(trial, 1.0),
            "report": lambda: trial.report(1.0),
            "should_stop": lambda: trial.should_stop,
            "open_trials": lambda: session.open_trials,
            "is_over": lambda: session.is_over,
            "close": session.close,
        }
        with ELSEWHERE[place]() as pool:
            for name, said in zip(calls["all"], pool.map(refusal, calls["all"]), strict=True):
                assert "`hpo ask lab` and `hpo tell lab TRIAL score=VALUE`" in said, name
        for sent in (session, trial):
            with pytest.raises(hpo.HpoError, match="only the thread that opened"):
                pickle.dumps(sent)
        session.tell(trial, 1.0)
    assert session.study.trials["state"].tolist() == ["complete"]


def test_a_trial_is_told_in_its_own_study_alone():
    with opened(name="a") as mine, opened(name="b") as other:
        trial, its = mine.ask(), other.ask()
        with pytest.raises(hpo.HpoError, match="trial 0: belongs to study 'b', and this session is of study 'a'"):
            mine.tell(its, 0.77)
        assert [each.number for each in mine.open_trials] == [trial.number]
    with opened(name="a") as again:
        assert again.tell(trial, 0.5)["state"] == "complete"


def test_a_failure_is_told_by_its_exception_as_a_training_here_tells_it():
    def train(lr):
        raise ValueError(f"{lr}\nis too large")

    with opened() as session:
        trial = session.ask()
        try:
            train(2)
        except ValueError as error:
            said = session.tell(trial, error=error)
        assert said["state"] == "failed"
        assert re.fullmatch(r"ValueError at test_session.py:\d+: 2 is too large", said["error"])
        assert session.tell(session.ask(), error=MemoryError())["error"].startswith("MemoryError")
        for other in (ValueError, 5, True, ["a"]):
            with pytest.raises(hpo.HpoError, match="error: must be a text or an exception"):
                session.tell(session.ask(), error=other)


@pytest.mark.parametrize("given", [("x",), ([1, 2],), (0.5, "x"), (0.5, [1])])
def test_a_report_that_is_no_number_is_refused(given):
    with opened() as session:
        trial = session.ask()
        with pytest.raises(hpo.HpoError, match="trial 0: report\\(\\) takes "):
            trial.report(*given)
        if len(given) > 1:
            with pytest.raises(hpo.HpoError, match="trial 0: report\\(\\) takes a number as the step"):
                trial.report(given[0], step=given[1])


calls = {}


def refusal(name):
    """Return the words by which a call of the test is refused."""
    try:
        calls["all"][name]()
    except hpo.HpoError as error:
        return str(error)
    return "it was taken"


@pytest.mark.slow
def test_a_study_that_is_trained_here_is_refused():
    found(score, name="lab", trials=1)
    with pytest.raises(hpo.HpoError, match="study: 'lab' has an objective that the toolkit trains"):
        hpo.open(name="lab")


def test_texts_that_are_told_are_notes_and_a_failed_point_is_added_as_a_retry():
    with hpo.open({"lr": [0.1, 0.2, 0.3]}, name="notes", direction="maximize", settings=HERE) as session:
        session.tell(session.ask(), {"score": 1.0, "checkpoint": "here"})
        failed = session.ask()
        session.tell(failed, error="no machine")
        session.add(failed.point)
        again = session.ask()
        assert again.point == failed.point
        session.tell(again, 2.0)
        trials = session.study.trials
        assert (trials.checkpoint[0], trials.retry_of[2]) == ("here", 1)
