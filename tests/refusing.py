"""What a source that cannot be read must get: one sentence."""

import re
from typing import Any

import pytest

import bayesmdp as bm


def refused(
    error: type[bm.BayesmdpError], source: Any, *said: str, **options: Any
) -> None:
    """Read: one sentence of ours, with these fragments, and no engine's traceback."""
    with pytest.raises(error) as caught:
        bm.read_transitions(source, **options)
    assert type(caught.value) is error
    message = str(caught.value)
    for fragment in said:
        assert fragment in message, message
    assert "\n" not in message
    assert message.endswith(".")
    assert not re.search(r"[.!?] [A-Z]", message), message  # one sentence
