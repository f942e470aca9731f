"""What every tracker is: an observer of the search that is also told of the study's beginning and end."""

import abc

from hpo.engine.observer import Observer
from hpo.track.messages import TrackerMessage


class Tracker(Observer, abc.ABC):
    """Shows a study as it runs. It is a projection of the record: nothing is read back from it."""

    @abc.abstractmethod
    def send(self, message: TrackerMessage) -> None:
        """Take one of the messages of `hpo.track.messages`."""

    @abc.abstractmethod
    def close(self, patience_seconds: float = 60.0) -> bool:
        """Send what is left; return whether everything arrived.

        Args:
            patience_seconds: how long nothing may arrive before the rest is left for later.
        """
