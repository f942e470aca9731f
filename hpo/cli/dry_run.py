"""What a search would do: checked as it is, shown, and not begun."""

from pathlib import Path

from hpo.engine.dispatch.away.code import Code, code_of
from hpo.session.mirroring import refuse_bad_urls
from hpo.session.surroundings import refuse_bad_surroundings
from hpo.study.opening import refuse_to_open
from hpo.study.study import Study


def show_dry_run(study: Study) -> int:
    """Print where the study lies, what it trains, and what of the user's code would travel; create nothing.

    Raises:
        HpoError: what the search would be refused with before its workers start.
    """
    config, dispatch = study.config, study.config.dispatch
    refuse_bad_surroundings(config)
    num_there, study_id = refuse_to_open(study)
    refuse_bad_urls(config, study.folder, study_id)
    code = code_of(study.objective, str(Path.cwd()))
    state = f"exists, with {num_there} trials" if study.folder.exists else "new"
    workers = 1 if dispatch.name == "local" else dispatch.workers or "as many as fit"
    folds, repeats = study.num_folds, config.study.repeats
    print(f"study {config.study.name}: {study.folder} ({state})")
    print(f"{study.counts}: {config.study.trials}; folds: {folds}; repeats: {repeats}; workers: {workers}")
    _show(code, is_sent=dispatch.address is not None)
    print("checked without starting workers, and nothing was created; without --dry-run this search runs")
    return 0


def _show(code: Code, is_sent: bool) -> None:
    if code.package is not None:
        print(f"your code: the installed package {code.package}, which every machine must have")
    if not code.files:
        return
    if not is_sent:
        print("no other machine is used (dispatch.address=null); if there were one:")
    print(code.in_words())
    for name, path in code.files.items():
        print(f"  {path.stat().st_size:>12,} bytes  {name}")
    for name in (*code.others, *code.links):
        print(f"  {'not sent':>18}  {name}")
