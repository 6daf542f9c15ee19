"""The executor of the chapters."""

from __future__ import annotations

from slrbook.__main__ import main


def test_stored_outputs_of_all_chapters_are_up_to_date():
    assert main(["execute", "--check"]) == 0
