"""Keep TensorFlow quiet in every test, doctest and notebook kernel.

It stands at the top so that it is read whatever pytest is asked to run.
"""

import os

# Both must be set before TensorFlow is imported; kernels inherit them.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
