"""A keys file and its pepper file, and keys that are added line by line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon_edge.callers import api_keys
from antiphon_edge.callers.api_keys import ApiKey

PEPPER = "pepper-that-is-long-enough-to-be-one"


@dataclass(frozen=True)
class KeyFiles:
    folder: Path

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def pepper(self) -> Path:
        return self.folder / "pepper"

    @property
    def settings(self) -> dict[str, Any]:
        """The members of EdgeSettings for these files."""
        return {"keys_file": self.keys, "keys_pepper_file": self.pepper}

    def make(self, tenant: str, **members: Any) -> str:
        """Adds a key for a tenant and returns its secret. `members` are members of ApiKey."""
        self.pepper.write_text(PEPPER + "\n")
        self.pepper.chmod(0o600)
        secret = api_keys.new_key(api_keys.new_key_id())
        made = ApiKey(
            **{
                "id": id_of(secret),
                "tenant": tenant,
                "digest": api_keys.digest(PEPPER.encode(), secret),
                "created_at_ms": 0,
                **members,
            }
        )
        with self.keys.open("a") as file:
            file.write(made.line() + "\n")
        return secret


def id_of(secret: str) -> str:
    return secret.split("_")[1]


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}
