"""An object store on loopback, for tests of those who write to one: moto's S3, one request after the other.

It may be told to forget the condition of a put, to refuse what a read-only bucket refuses, to lose an answer, or to say
that another put is under way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import pytest

BUCKET = "plans"
_ERROR = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{said}</Message></Error>'


@dataclass
class ObjectStore:
    """The store, and what it does to the requests to come.

    Attributes
    ----------
    forgets : bool
        Whether a put goes through whatever its condition.
    refused : set of str
        Methods of HTTP that are forbidden.
    lost : int
        How many puts are done and answered with an error.
    busy : int
        How many puts are not done, since another one of the name is under way.
    puts : list of (str, str or None)
        The names that were put, as often as they were, and the condition.
    """

    forgets: bool = False
    refused: set[str] = field(default_factory=set)
    lost: int = 0
    busy: int = 0
    puts: list[tuple[str, str | None]] = field(default_factory=list)

    def start(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._app = DomainDispatcherApplication(create_backend_app)
        # moto looks whether a name is taken and writes it in two steps, so requests have to come one by one
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=False)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """By which clients find it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}", "AWS_ACCESS_KEY_ID": "a key",
            "AWS_SECRET_ACCESS_KEY": "a secret", "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
        }  # fmt: skip

    def held(self) -> list[str]:
        """The names of all objects."""
        from moto.s3.models import s3_backends

        found = [b for account in s3_backends.values() for b in account["aws"].buckets.values() if b.name == BUCKET]
        return sorted(found[0].keys) if found else []

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if method in self.refused:
            _taken(environ)
            return _error(start, "403 Forbidden", "AccessDenied", "Access Denied")
        if method != "PUT":
            return self._app(environ, start)
        self.puts.append((environ["PATH_INFO"], environ.get("HTTP_IF_NONE_MATCH")))
        if self.forgets:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if self.busy:
            self.busy -= 1
            _taken(environ)
            return _error(start, "409 Conflict", "ConditionalRequestConflict", "a conflicting operation")
        if self.lost:
            self.lost -= 1
            list(self._app(environ, lambda *given: None))
            return _error(start, "500 Internal Server Error", "InternalError", "try again")
        return self._app(environ, start)


def _taken(environ: dict[str, Any]) -> None:
    """A client may wait for its body to be read before it reads the answer."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))


def _error(start: Callable[..., Any], status: str, code: str, said: str) -> list[bytes]:
    start(status, [("Content-Type", "application/xml")])
    return [_ERROR.format(code=code, said=said).encode()]


def clients_find(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients of this process find the store, with an empty bucket."""
    import boto3
    import fsspec
    from moto.s3.models import s3_backends

    store.forgets, store.refused, store.lost, store.busy = False, set(), 0, 0
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    s3_backends.reset()
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    store.puts.clear()
