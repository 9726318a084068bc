"""Several students open lesson 01 at once on a JupyterHub on this machine."""

import json
import os
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import MagicMock
from urllib.parse import parse_qsl, urlencode, urlsplit

import forked
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "classroom" / "jupyterhub_config.py"
LINKS = runpy.run_path(str(ROOT / "tools" / "links.py"))
TOKEN = uuid.uuid4().hex
STUDENTS = ("ada", "emmy")
BIN = Path(sys.executable).parent


def free_port():
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


class Hub:
    """A running hub, and a way to ask it."""

    def __init__(self, address):
        self.address = address

    def ask(self, path, method="GET", data=None):
        """The JSON that the hub, or a student's server, answers."""
        text = self.read(path, method, data)
        return json.loads(text) if text else None

    def read(self, path, method="GET", data=None):
        request = urllib.request.Request(
            self.address + path,
            method=method,
            data=None if data is None else json.dumps(data).encode(),
            headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read()

    def start(self, student):
        if student not in {user["name"] for user in self.ask("/hub/api/users")}:
            self.ask(f"/hub/api/users/{student}", "POST", {})
        self.ask(f"/hub/api/users/{student}/server", "POST", {})
        for _ in range(1200):
            if self.ask(f"/hub/api/users/{student}")["servers"].get("", {}).get("ready"):
                return
            time.sleep(0.1)
        raise TimeoutError(f"{student}'s server did not start: see {self.log}")

    def run(self, student, source):
        """What a cell prints in a new kernel of this student."""
        from websocket import create_connection

        base = f"/user/{student}"
        kernel = self.ask(f"{base}/api/kernels", "POST", {"name": "python3", "path": "course"})
        url = self.address.replace("http", "ws", 1) + f"{base}/api/kernels/{kernel['id']}/channels"
        channel = create_connection(url, timeout=120, header=[f"Authorization: token {TOKEN}"])
        number = uuid.uuid4().hex
        header = {"msg_id": number, "username": "", "session": number, "date": ""}
        content = {"code": source, "silent": False, "store_history": False, "stop_on_error": True}
        message = {"header": {**header, "msg_type": "execute_request", "version": "5.3"}}
        message |= {"parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        channel.send(json.dumps(message))
        printed = ""
        while True:
            answer = json.loads(channel.recv())
            if answer["parent_header"].get("msg_id") != number:
                continue
            if answer["msg_type"] == "stream":
                printed += answer["content"]["text"]
            if answer["msg_type"] == "error":
                printed += "\n".join(answer["content"]["traceback"])
            if answer["msg_type"] == "status" and answer["content"]["execution_state"] == "idle":
                channel.close()
                return printed


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    pytest.importorskip("jupyterhub", reason="pip install 'custom-gradients[hub]'")
    if shutil.which("configurable-http-proxy") is None:
        pytest.skip("configurable-http-proxy is missing: npm install -g configurable-http-proxy")
    folder = tmp_path_factory.mktemp("hub")
    (folder / "config.py").write_text(
        f"c = get_config()\n"
        f"load_subconfig({str(CONFIG)!r})\n"
        f"c.Spawner.env_keep.extend({['JUPYTER_PATH', forked.SERVER]})\n"  # kernels as in all tests
        f"c.Spawner.args += {['--allow-root'] if os.geteuid() == 0 else []}\n"
        f"c.JupyterHub.services = [{{'name': 'test', 'api_token': {TOKEN!r}}}]\n"
        f"c.JupyterHub.load_roles = [{{'name': 'test', 'services': ['test'],\n"
        f"    'scopes': ['admin:users', 'admin:servers', 'access:servers']}}]\n"
        f"c.JupyterHub.hub_port = {free_port()}\n"
        f"c.ConfigurableHTTPProxy.api_url = 'http://127.0.0.1:{free_port()}'\n"
    )
    address = f"http://127.0.0.1:{free_port()}"
    settings = {"TRIAL": "1", "HUB_ADDRESS": address, "HOMES": str(folder / "homes")}
    log = (folder / "hub.log").open("w")
    process = subprocess.Popen(
        [BIN / "jupyterhub", "-f", folder / "config.py"],
        cwd=folder,
        env={**os.environ, **settings, "PATH": f"{BIN}:{os.environ['PATH']}"},
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    hub = Hub(address)
    hub.homes, hub.log = folder / "homes", folder / "hub.log"
    for _ in range(600):
        try:
            hub.ask("/hub/api/")
            break
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, (folder / "hub.log").read_text()
            time.sleep(0.1)
    yield hub
    log.close()
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def opened(hub):
    """What each student has after opening lesson 01 and running its first cell, all at once."""

    def one(student):
        hub.start(student)
        lesson = hub.ask(f"/user/{student}/api/contents/course/01_chain_rule.ipynb")
        code = [c for c in lesson["content"]["cells"] if c["cell_type"] == "code"]
        setup = next(c["source"] for c in code if "import cgviz" in c["source"])
        ask = "\nprint(cgviz.trace(lambda x: x * x, 3.0).gradients[0])"
        return hub.run(student, setup + ask)

    with ThreadPoolExecutor(len(STUDENTS)) as pool:
        return dict(zip(STUDENTS, pool.map(one, STUDENTS), strict=True))


def test_each_student_opens_lesson_01_and_its_code_runs(opened):
    assert {student: text.strip() for student, text in opened.items()} == dict.fromkeys(
        STUDENTS, "6.0"
    )


def test_no_student_is_given_the_solutions(hub, opened):
    for student in STUDENTS:
        given = {path.name for path in (hub.homes / student / "course").iterdir()}
        assert "exercises" in given
        assert "solutions" not in given


def test_a_second_start_leaves_a_students_work_alone(hub, opened):
    own = hub.homes / "ada" / "course" / "01_chain_rule.ipynb"
    own.write_text("mine")
    hub.ask("/hub/api/users/ada/server", "DELETE")
    hub.start("ada")
    assert own.read_text() == "mine"


# --- a link that fetches the course ------------------------------------------------------------


@pytest.fixture(scope="module")
def fetched(opened, hub, tmp_path_factory):
    """The page that a link to lesson 01 opens for emmy, with a repository on this machine."""
    remote = tmp_path_factory.mktemp("remote") / "cgviz"
    (remote / "notebooks").mkdir(parents=True)
    lesson = ROOT / "notebooks" / "01_chain_rule.ipynb"
    shutil.copy(lesson, remote / "notebooks")
    me = ["-c", "user.name=teacher", "-c", "user.email=teacher@example.org"]
    for words in (["init", "-b", "main"], ["add", "."], [*me, "commit", "-m", "first"]):
        subprocess.run(["git", "-C", remote, *words], check=True, capture_output=True)

    link = urlsplit(re.search(r"<(.*)>", LINKS["hub_row"](lesson, "OWNER/cgviz"))[1])
    query = dict(parse_qsl(link.query))
    assert query["repo"].rpartition("/")[2] == remote.name
    query["repo"] = str(remote)
    command = link.path.removeprefix("/hub/user-redirect/")
    pull = urlencode({"repo": query["repo"], "targetpath": remote.name})
    said = hub.read(f"/user/emmy/{command}/api?{pull}").decode()
    return said, hub.read(f"/user/emmy/{command}?{urlencode(query)}").decode(), query["urlpath"]


def test_a_link_fetches_the_course_beside_the_copy_and_opens_the_lesson(hub, fetched):
    said, page, place = fetched
    assert '"phase": "finished"' in said, said
    assert place in page
    path = place.removeprefix("lab/tree/")
    assert hub.ask(f"/user/emmy/api/contents/{path}?content=0")["type"] == "notebook"
    assert hub.ask("/user/emmy/api/contents/course?content=0")["type"] == "directory"


# --- without a hub ---------------------------------------------------------------------------


def test_passwords_are_never_asked_for_without_encryption(monkeypatch):
    monkeypatch.setenv("HUB_ADDRESS", "http://:8000")
    with pytest.raises(SystemExit, match="would send passwords without encryption"):
        runpy.run_path(str(CONFIG), {"get_config": MagicMock})
    monkeypatch.setenv("HUB_ADDRESS", "https://hub.example.org")
    made = runpy.run_path(str(CONFIG), {"get_config": MagicMock})["c"]
    assert made.JupyterHub.bind_url == "https://hub.example.org"


def test_the_hub_writes_nothing_into_a_home_as_root():
    words = CONFIG.read_text("utf-8")
    assert not re.search(r"chown|copytree|pre_spawn_hook|getpwnam", words)


def manifests(name):
    return list(yaml.safe_load_all((ROOT / "classroom" / name).read_text("utf-8")))


def test_on_kubernetes_the_course_is_in_the_volume_and_a_kernel_has_the_memory_it_needs():
    (values,) = manifests("zero_to_jupyterhub.yaml")
    server = values["singleuser"]
    assert (server["memory"]["guarantee"], server["memory"]["limit"]) == ("1G", "2G")
    assert server["extraEnv"]["TF_CPP_MIN_LOG_LEVEL"] == "3"
    assert "homeMountPath" not in server["storage"]  # the whole home is kept
    assert server["cmd"][1].endswith("/start_server.py")
    assert server["defaultUrl"] == "/lab/tree/course/00_start_here.ipynb"


def test_the_image_for_students_takes_nothing_of_the_repository_but_the_wheel():
    stages = (ROOT / "classroom" / "Dockerfile").read_text("utf-8").split("\nFROM ")
    (student,) = [stage for stage in stages if " AS student" in stage]
    copied = re.findall(r"^(?:COPY|ADD) (.*)", student, re.MULTILINE)
    assert copied == ["classroom/start_server.py /opt/start_server.py"]
    assert re.findall(r"from=(\w+)", student) == ["wheel"]  # test_binder.py: it has no solutions


def test_the_cluster_that_grades_agrees_with_the_schema_of_kubernetes():
    validate = pytest.importorskip("kubernetes_validate")
    found = manifests("grading_cluster.yaml")
    for manifest in found:
        validate.validate(manifest, "1.33", strict=True)
    kinds = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in found]
    assert ("Deployment", "grading-worker") in kinds
    worker = next(m for m in found if m["metadata"]["name"] == "grading-worker")
    pod = worker["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["hostUsers"] is False
    assert "tls://grading:8786" in pod["containers"][0]["command"]


def test_the_server_of_a_student_starts_with_a_copy_of_the_course(tmp_path):
    script = ROOT / "classroom" / "start_server.py"
    done = subprocess.run(
        [sys.executable, script, "--version"],
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    given = {path.name for path in (tmp_path / "course").iterdir()}
    assert "01_chain_rule.ipynb" in given
    assert "solutions" not in given
