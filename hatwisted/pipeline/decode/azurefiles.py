"""Azure's stores, `abfs://`, as pyarrow reads and writes them.

delta-rs writes a table's log and pyarrow its files, and what an address and the environment say has to mean the
same to both. pyarrow by itself wants the account within the address and passes the variables of a key by. So they
are looked up here, under the names that delta-rs (and Azure's own tools, where they have one) give them. Without a
key or a token it's Azure's usual chain: a client's secret, the machine's identity, `az login`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from hatwisted.pipeline.errors import PipelineError

AZURE_SCHEMES: Final = ("abfs", "abfss")
ACCOUNT: Final = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
KEY: Final = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY")
TOKEN: Final = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
ENDPOINT: Final = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
"""Variables; the first that is set counts. An endpoint is another place than Azure's own, as an emulator's."""


def azure_options(path: str, environment: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """(what pyarrow's AzureFileSystem takes, the path as it calls it). Raises PipelineError without an account.

    - path: abfs://CONTAINER/FOLDER or abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER
    - environment: variables
    """
    address = urlsplit(path)
    container, named, host = address.netloc.rpartition("@")
    if not named:
        container, host = address.netloc, ""
    account = host.partition(".")[0] or _first(environment, ACCOUNT)
    if not account or not container:
        raise PipelineError(
            f"{path}: of which account? Set {ACCOUNT[0]}, or give"
            f" {address.scheme}://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER"
        )
    options: dict[str, Any] = {"account_name": account}
    if key := _first(environment, KEY):
        options["account_key"] = key
    elif token := _first(environment, TOKEN):
        options["sas_token"] = f"?{token.removeprefix('?')}"
    if endpoint := _first(environment, ENDPOINT):
        place = urlsplit(endpoint)
        for kind in ("blob", "dfs"):
            options |= {f"{kind}_storage_authority": place.netloc, f"{kind}_storage_scheme": place.scheme}
    return options, f"{container}{address.path}".rstrip("/")


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((found for name in names if (found := environment.get(name))), None)
