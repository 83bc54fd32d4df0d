"""Archives of the tests are not flushed to the disk, which takes longest of all; crashes are, which is their point."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_flush(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.module.__name__.rpartition(".")[2] != "test_crashes":
        monkeypatch.setattr(os, "fsync", lambda file: None)
