"""The faults that the model and its trainer can name."""


class ModelError(Exception):
    """Root of this package's errors."""


class DataError(ModelError, ValueError):
    """The user's data cannot be used as it is; the message is one line that says where and what to do."""


class Diverged(ModelError, ArithmeticError):  # noqa: N818 -- the name that searches know
    """The training loss became NaN or infinite."""


class OutOfMemoryError(ModelError, MemoryError):
    """The GPU's memory did not suffice for one update."""


class SequenceTooLongError(ModelError, ValueError):
    """A sequence has more tokens than the network has positions."""


class CheckpointError(ModelError, ValueError):
    """A checkpoint folder is missing, incomplete or belongs to another configuration."""
