"""Keep TensorFlow quiet in every test, doctest and notebook kernel; compare no pictures.

It is at the top so that it is read whatever pytest is asked to run.
"""

import os

from nbval.plugin import IPyNbCell

# Both must be set before TensorFlow is imported; kernels inherit them.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"


def pytest_collection_modifyitems(items):
    """Compare no picture of a live view: nbval compares HTML, and pictures in no other form."""
    for item in items:
        if isinstance(item, IPyNbCell):
            item.compare_outputs = _without_stills(item.compare_outputs)


def _without_stills(compare):
    def compared(test, ref, **given):
        for output in test:
            if "cgviz-still" in output.get("data", {}).get("text/html", ""):
                del output["data"]["text/html"]
        return compare(test, ref, **given)

    return compared
