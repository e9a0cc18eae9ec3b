"""Google's store, `gs://`, by pyarrow for fsspec, where its own gcsfs isn't installed."""

from __future__ import annotations

from typing import Any

from fsspec.implementations.arrow import ArrowFSWrapper


class GoogleFiles(ArrowFSWrapper):
    """pyarrow's file system, whose listings of a folder lack the folders in it: at Google's store there are none
    unless somebody has made objects of their names. They are taken from what lies below, so each listing is one of
    everything below: gcsfs asks for less."""

    def ls(self, path: str, detail: bool = False, **more: Any) -> list[Any]:
        from pyarrow.fs import FileSelector

        start = len(path := path.rstrip("/")) + 1
        found: dict[str, dict[str, Any]] = {}
        for item in self.fs.get_file_info(FileSelector(path, recursive=True)):
            name, below, _ = item.path[start:].partition("/")
            folder = {"name": f"{path}/{name}", "type": "directory", "size": None}
            found.setdefault(name, folder if below else self._make_entry(item))
        return list(found.values()) if detail else sorted(entry["name"] for entry in found.values())
