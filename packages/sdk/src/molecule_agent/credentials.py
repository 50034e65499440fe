"""The token of an agent: in memory, on disk, and the same in both as soon as that is possible."""

import threading
from pathlib import Path

from molecule_agent import token_store, worker_id_file


class Credentials:
    """Holds the token and the recovery secret of one workspace; any thread may ask."""

    def __init__(self, directory: Path) -> None:
        self._store = token_store.TokenStore(directory)
        self._worker_file = worker_id_file.WorkerIdFile(self._store)
        self._lock = threading.RLock()
        self._token: str | None = None
        self._token_is_saved = True
        self._unsaved_recovery = ("", "")  # a token and the secret that came with it

    @property
    def token_file(self) -> Path:
        """Where the token is kept."""
        return self._store.token_file

    def save_token(self, token: str) -> None:
        """Use a token from now on and keep it for the next start."""
        token = token.strip()
        if not token:
            raise ValueError("refusing to save empty token")
        with self._lock:
            self._token = token
        self._save_what_is_in_use(token)

    def load_token(self) -> str | None:
        """The token in use: from memory, else from disk."""
        if self._token:
            return self._token
        found = self._store.load_token()
        with self._lock:
            self._token = self._token or found
            return self._token

    def _adopt_token_other_than(self, used: str | None) -> bool:
        """After a 401: another process, or thread, of this agent may have a newer token."""
        found = self._store.load_token()
        with self._lock:
            if found and found != used:
                self._token = found
            return self._token not in (None, used)

    def _keep_recovery(self, token: str, secret: str) -> None:
        """Write the recovery secret of a token, now or after a later heartbeat with it."""
        saved = self._store.save_recovery(secret)
        self._unsaved_recovery = ("", "") if saved else (token, secret)

    def _recovery_in_memory(self) -> str:
        """The secret that could not be written, while its token is the one in use."""
        token, secret = self._unsaved_recovery
        return secret if token == self._token else ""

    def _persist_token_again(self) -> None:
        if self._token and (secret := self._recovery_in_memory()):
            self._keep_recovery(self._token, secret)
        if self._token and not (self._token_is_saved and self.token_file.exists()):
            self._save_what_is_in_use(self._token)

    def _save_what_is_in_use(self, token: str) -> None:
        """Write the token; again if another thread has changed it meanwhile, so that the newest stays."""
        written = ""
        while token != written and self._store.save_token(token):
            written, token = token, self._token or token
        self._token_is_saved = token == written
