"""The base of trackers: an observer of the search that also gets the study's start and end."""

import abc

from hpo.engine.observer import Observer
from hpo.track.messages import TrackerMessage


class Tracker(Observer, abc.ABC):
    """Shows a running study. It is a projection of the record: nothing is read from it."""

    @abc.abstractmethod
    def send(self, message: TrackerMessage) -> None:
        """Take one of the messages of `hpo.track.messages`."""

    @abc.abstractmethod
    def close(self, patience_seconds: float = 60.0) -> bool:
        """Send what is left; return whether everything arrived.

        After `patience_seconds` without progress the rest is left for later.
        """
