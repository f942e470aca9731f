"""Where a running search is shown: at a terminal, in a notebook, or nowhere."""

from types import TracebackType
from typing import Protocol, Self

from hpo.config.sections import DispatchSection
from hpo.engine.dispatch import Code
from hpo.engine.dispatch.dispatcher import Gpus
from hpo.engine.observer import Observer
from hpo.engine.record.record import Record
from hpo.run import Result
from hpo.study.study import Study


class Progress(Observer):
    """Shows the trials of a search while it runs; as it is, nothing. To be entered before its first trial."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Display(Protocol):
    """Shows one search, from its start to its end."""

    def announce(self, study: Study) -> None:
        """Show what is searched."""

    def tell_code(self, code: Code) -> None:
        """Show what of the user's code goes to other machines."""

    def tell_start(self, dispatch: DispatchSection) -> None:
        """Show that workers are being started."""

    def tell_gpus(self, gpus: Gpus, dispatch: DispatchSection) -> None:
        """Show what the workers have of the machine's GPUs."""

    def tell_lanes(self, study: Study, workers: int) -> None:
        """Show how many trainings are planned to be under way at once."""

    def progress(self, study: Study, record: Record) -> Progress:
        """Return what shows the trials as they come."""

    def conclude(self, study: Study, result: Result) -> None:
        """Show how it ended."""


class Nowhere:
    """Shows nothing."""

    def announce(self, study: Study) -> None:
        """Show nothing."""

    def tell_code(self, code: Code) -> None:
        """Show nothing."""

    def tell_start(self, dispatch: DispatchSection) -> None:
        """Show nothing."""

    def tell_gpus(self, gpus: Gpus, dispatch: DispatchSection) -> None:
        """Show nothing."""

    def tell_lanes(self, study: Study, workers: int) -> None:
        """Show nothing."""

    def progress(self, study: Study, record: Record) -> Progress:  # noqa: ARG002 -- the same call as its siblings
        """Show nothing."""
        return Progress()

    def conclude(self, study: Study, result: Result) -> None:
        """Show nothing."""
