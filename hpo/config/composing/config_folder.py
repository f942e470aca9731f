"""A folder of the user's configuration groups, which Hydra reads through our strict YAML reader."""

from pathlib import Path

from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

from hpo.config.documents import read_yaml


class StrictFiles(ConfigSource):
    """Refuses files with objects, duplicate keys or values that expand without bound."""

    @staticmethod
    def scheme() -> str:
        """Return the scheme (before ://) in Hydra's search path."""
        return "strict"

    def load_config(self, config_path: str) -> ConfigResult:
        """Return one file's configuration; raises DocumentError, with line and column, if it is not valid."""
        path = self._file(config_path)
        if not path.is_file():
            raise ConfigLoadError(f"{path} is not there")
        if path.stat().st_size > 0:
            read_yaml(path, "config_dir")
        text = path.read_text(encoding="utf-8-sig")
        # The header names the part of the configuration that the file sets: `# @package _global_`.
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(text), self._get_header_dict(text))

    def available(self) -> bool:
        """Return whether the folder exists."""
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        """Return whether the path is a folder of configurations."""
        return Path(self.path, config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        """Return whether the path is a file, with or without its suffix."""
        return self._file(config_path).is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the names of the groups and configurations in a group, sorted."""
        names: list[str] = []
        for path in Path(self.path, config_path).iterdir():
            self._list_add_result(names, str(Path(config_path, path.name)), path.name, results_filter)
        return sorted(set(names))

    def _file(self, config_path: str) -> Path:
        return Path(self.path, self._normalize_file_name(config_path))


def searchpath(folder: Path) -> str:
    """Return the override that adds the folder to Hydra's search path."""
    Plugins.instance().register(StrictFiles)
    path = QuotedString(f"strict://{folder.absolute()}", Quote.single).with_quotes()
    return f"hydra.searchpath=[{path}]"
