"""What users read of a dozen programs is what it was: words, numbers, and when they come.

The files in tests/golden change on purpose only: `python tests/test_golden.py` writes them, and the
difference is part of the commit that means it.
"""

import json
from pathlib import Path

import pytest
import tensorflow as tf
from golden_programs import PROGRAMS, written

FOLDER = Path(__file__).parent / "golden"


def as_text(found):
    return json.dumps(found, indent=1, ensure_ascii=False, default=str) + "\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_users_read_is_what_it_was(name):
    stored = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    tf.keras.backend.clear_session()  # layers are numbered from 1, whatever ran before
    found = json.loads(as_text(written(PROGRAMS[name]())))
    for part in stored:
        assert found[part] == stored[part], part
    assert list(found) == list(stored)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, program in PROGRAMS.items():
        (FOLDER / f"{name}.json").write_text(as_text(written(program())), encoding="utf-8")
