"""A cache of encoded examples on disk; all workers of a machine memory-map the same files."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import torch
from torch import Tensor

from model.data.store import store_digest

PLAIN = "plain.json"


def cache_folder(data_dir: str, settings: dict[str, Any], encoded_type: type) -> Path:
    """Return the cache folder for prepared data that is encoded with these settings.

    The folder's name is a hash of the data, the settings, and the fields of `encoded_type`. A change of any of these
    leads to another folder.
    """
    key = json.dumps([store_digest(data_dir), settings, _fields_of(encoded_type)], sort_keys=True)
    return Path(data_dir) / "encoded" / hashlib.sha256(key.encode()).hexdigest()[:32]


def encode_once(
    folder: Path, names: Iterable[str], encoded_type: type, build: Callable[[], tuple[dict[str, Any], dict[str, Any]]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the result of `build`: a JSON-able dict, and the encoded splits by their `names`.

    If the folder exists, load the result from it; otherwise call `build`, write the folder and load the result. If the
    folder cannot be written, return the result of `build` as it is.

    `encoded_type` is the dataclass of every split. Its fields are tensors, JSON-able values, or further dataclasses of
    this kind. Loaded tensors are memory-mapped; changing such a tensor does not change the files.
    """
    if not folder.exists():
        values, parts = build()
        try:
            _write(folder, values, parts)
        except OSError:  # a training needs no cache, so a full or read-only disk must not stop it
            return values, parts
    plain = json.loads((folder / PLAIN).read_text(encoding="utf-8"))
    return plain["values"], {name: _load(encoded_type, name, folder, plain["fields"]) for name in names}


def _fields_of(value_type: Any) -> dict[str, Any] | str:
    """Return the names and types of a dataclass's fields, recursively; for any other type, return the type's name."""
    if not is_dataclass(value_type):
        return str(value_type)
    assert isinstance(value_type, type)  # a dataclass, not one of its instances
    return {name: _fields_of(held) for name, held in get_type_hints(value_type).items()}


def _write(folder: Path, values: dict[str, Any], parts: dict[str, Any]) -> None:
    folder.parent.mkdir(exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    plain: dict[str, Any] = {}
    try:
        for name, part in parts.items():
            _save(part, name, aside, plain)
        (aside / PLAIN).write_text(json.dumps({"values": values, "fields": plain}), encoding="utf-8")
        if not folder.exists():
            aside.rename(folder)
    except OSError:
        if not folder.exists():  # otherwise another worker has written the same content
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _save(value: Any, name: str, folder: Path, plain: dict[str, Any]) -> None:
    if isinstance(value, Tensor):
        np.save(folder / f"{name}.npy", value.numpy(), allow_pickle=False)
    elif is_dataclass(value):
        for field in fields(value):
            _save(getattr(value, field.name), f"{name}.{field.name}", folder, plain)
    else:
        plain[name] = value


def _load(value_type: Any, name: str, folder: Path, plain: dict[str, Any]) -> Any:
    if value_type is Tensor:
        # Map the file copy-on-write: workers share it and load it lazily, but the array is writable, as torch requires.
        return torch.from_numpy(np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False))
    if is_dataclass(value_type):
        assert isinstance(value_type, type)  # a dataclass, not one of its instances
        hints = get_type_hints(value_type)
        loaded = {
            each.name: _load(hints[each.name], f"{name}.{each.name}", folder, plain) for each in fields(value_type)
        }
        return value_type(**loaded)
    return plain[name]
