"""The accounts that a server's configuration names, read while it's built: mistakes in them end the start."""

from __future__ import annotations

from hatwisted.acl.aclfiles import AclError, AclFiles, account_paths
from hatwisted.assembly.entry import acl_places
from hatwisted.assembly.parts import Parts
from hatwisted.config.accesskeys import AccessKeys
from hatwisted.config.errors import SettingError
from hatwisted.store.interfaces import IFileSystem, IWorker


def acl_files(config: AccessKeys, parts: Parts, worker: IWorker) -> AclFiles | None:
    """The accounts of those who are let in, read; None: everybody is. Raises SettingError.

    - config: says where they are
    - parts: the server's surroundings
    - worker: reads them while it runs
    """
    places = acl_places(config)
    if places is None:
        return None
    files = AclFiles(places, parts.file_system, worker, parts.clock)
    try:
        files.load()
    except AclError as error:
        raise SettingError("aclEnable", str(error)) from None
    return files


def files_of_accounts(config: AccessKeys, fs: IFileSystem) -> list[str]:
    """Where the accounts are that its configuration names; nowhere if it's one that `acl_files` refuses.

    - config: the server's
    - fs: the disk
    """
    try:
        places = acl_places(config)
    except SettingError:
        return []
    return [] if places is None else account_paths(places, fs)
