"""The Python that runs the toolkit: one that leaves out assertions is refused."""

from sys import flags

from hpo.errors import ConfigError


def refuse_optimized_python() -> None:
    """Raise ConfigError where Python was started to leave out assertions, on which Hydra's parser relies, and we do."""
    if flags.optimize:
        raise ConfigError(
            "Python: leaves out assertions, on which the reading of a configuration relies; run it without -O, and "
            "with PYTHONOPTIMIZE unset"
        )
