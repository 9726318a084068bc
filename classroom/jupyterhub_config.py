"""A JupyterHub for one class on one machine. The page beside this file explains each step.

jupyterhub -f classroom/jupyterhub_config.py             accounts of the machine (as root)
TRIAL=1 jupyterhub -f classroom/jupyterhub_config.py     any name, no password: to try it out
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

c = get_config()  # noqa: F821

COURSE = Path(os.environ.get("COURSE", Path(__file__).resolve().parents[1]))
TRIAL = bool(os.environ.get("TRIAL"))

c.JupyterHub.bind_url = os.environ.get(
    "HUB_ADDRESS", "http://127.0.0.1:8000" if TRIAL else "http://:8000"
)
c.JupyterHub.authenticator_class = "dummy" if TRIAL else "pam"
c.JupyterHub.spawner_class = "simple" if TRIAL else "localprocess"
c.Authenticator.allow_all = True

# A trial keeps its homes in one folder, and students' files in it.
HOMES = Path(os.environ.get("HOMES", Path(tempfile.gettempdir()) / "cgviz-trial"))
if TRIAL:
    c.SimpleLocalProcessSpawner.home_dir_template = f"{HOMES}/{{username}}"

c.Spawner.cmd = [str(Path(sys.executable).parent / "jupyterhub-singleuser")]
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


def give_course(spawner):
    """Copy the notebooks, but no solutions, into a home that does not have them yet."""
    if TRIAL:
        home, owner = HOMES / spawner.user.name, None
    else:
        import pwd

        entry = pwd.getpwnam(spawner.user.name)
        home, owner = Path(entry.pw_dir), (entry.pw_uid, entry.pw_gid)
    target = home / "course"  # a link of nbgitpuller makes `cgviz`, and needs the name free
    if target.exists():
        return  # what a student has written is never touched
    shutil.copytree(COURSE / "notebooks", target, ignore=shutil.ignore_patterns("solutions", ".*"))
    for path in [target, *target.rglob("*")] if owner else []:
        os.chown(path, *owner)


c.Spawner.pre_spawn_hook = give_course
