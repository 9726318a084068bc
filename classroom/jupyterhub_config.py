"""A JupyterHub for one class on one machine. The page beside this file explains each step.

jupyterhub -f classroom/jupyterhub_config.py             accounts of the machine (as root)
TRIAL=1 jupyterhub -f classroom/jupyterhub_config.py     any name, no password: to try it out
"""

import os
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

c = get_config()  # noqa: F821

TRIAL = bool(os.environ.get("TRIAL"))
ADDRESS = os.environ.get("HUB_ADDRESS", "http://127.0.0.1:8000")
if urlsplit(ADDRESS).scheme != "https" and urlsplit(ADDRESS).hostname != "127.0.0.1":
    sys.exit(
        f"{ADDRESS} would send passwords without encryption. Keep http://127.0.0.1:8000, and put a "
        "web server with TLS in front of it: see classroom/jupyterhub.md."
    )

c.JupyterHub.bind_url = ADDRESS
c.JupyterHub.authenticator_class = "dummy" if TRIAL else "pam"
c.JupyterHub.spawner_class = "simple" if TRIAL else "localprocess"
c.Authenticator.allow_all = True

# A trial keeps its homes in one folder, and students' files in it.
HOMES = Path(os.environ.get("HOMES", Path(tempfile.gettempdir()) / "cgviz-trial"))
if TRIAL:
    c.SimpleLocalProcessSpawner.home_dir_template = f"{HOMES}/{{username}}"

# The course is copied by the student's own process: nothing is written to a home as root.
c.Spawner.cmd = [sys.executable, str(Path(__file__).with_name("start_server.py"))]
c.Spawner.default_url = "/lab/tree/course/00_start_here.ipynb"
c.Spawner.environment = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
# A whole class presses the button in the same minute.
c.JupyterHub.concurrent_spawn_limit = 20
# A kernel that nobody has used for half an hour gives its memory back.
c.Spawner.args = [
    "--MappingKernelManager.cull_idle_timeout=1800",
    "--MappingKernelManager.cull_interval=60",
]
