"""A folder of configuration groups of the user's own, which Hydra reads through our strict reader of YAML."""

from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.plugins.config_source import ConfigResult

from hpo.config.documents import read_yaml
from hpo.errors import DocumentError

# Some 20,000 values, which take Hydra 6 s.
_MOST_BYTES = 128 * 1024


class StrictFiles(FileConfigSource):
    """Files as Hydra reads them, after they were found to hold no objects, no double keys and nothing that explodes."""

    @staticmethod
    def scheme() -> str:
        """Return what stands before :// in Hydra's search path."""
        return "strict"

    def load_config(self, config_path: str) -> ConfigResult:
        """Return one file's configuration; raises DocumentError, with line and column, where it is none."""
        path = Path(self.path, self._normalize_file_name(config_path))
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise DocumentError(
                f"--config-dir: {path}: is larger than {_MOST_BYTES // 1024} KiB, for which Hydra takes minutes; write "
                f"ranges for long lists, or give a whole configuration by --config"
            )
        if path.exists() and path.stat().st_size > 0:
            read_yaml(path, "--config-dir")
        return super().load_config(config_path)


def searchpath(folder: Path) -> str:
    """Return the override that has Hydra look into the folder, too."""
    SourcesRegistry.instance().register(StrictFiles)
    path = QuotedString(f"strict://{folder.absolute()}", Quote.single).with_quotes()
    return f"hydra.searchpath=[{path}]"
