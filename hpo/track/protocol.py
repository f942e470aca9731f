"""What every tracker is: an observer of the search that is also told of the study's beginning and end."""

from typing import Protocol

from hpo.observer import Observer
from hpo.track.messages import Message


class Tracker(Observer, Protocol):
    """Shows a study as it runs. It is a projection of the record: nothing is read back from it."""

    def send(self, message: Message) -> None:
        """Take one of the messages of `hpo.track.messages`."""
        ...

    def close(self) -> bool:
        """Send what is left; return whether everything arrived."""
        ...
