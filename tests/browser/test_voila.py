"""The live picture in Voila: no notebook, only its outputs."""

from importlib.util import find_spec

from .conftest import Server, missing, write


def test_it_steps_and_slides_in_voila(page, tmp_path):
    if find_spec("voila") is None:
        missing("Voila is not installed: pip install -e '.[browser]'")
    folder = tmp_path / "voila"
    folder.mkdir()
    write(
        folder / "n.ipynb",
        "import tensorflow as tf, cgviz",
        "cgviz.explore(lambda x: tf.sin(x) * x, x=(-3.0, 3.0))",
    )
    server = Server(folder, "voila", "n.ipynb", "--Voila.ip=127.0.0.1")
    try:
        server.wait("/voila/static/")
        page.goto(server.url)
        page.wait_for_selector(".cgviz-view")
        page.get_by_role("button", name="One step back").click()
        assert page.locator(".cgviz-where").inner_text() == "backward step 1 of 2"
        page.get_by_label("x", exact=True).fill("2")
        page.wait_for_function("document.querySelector('.cgviz-explore').dataset.moved >= 1")
    finally:
        server.stop()
