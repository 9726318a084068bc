"""The site: every page opens from disk, asks for nothing, leads somewhere, and its pictures play.

By default three pages are run for it, and the others have what is stored in their notebooks. The
whole site, built by `make site`, is tested with CGVIZ_SITE=build/site/html.
"""

import os
import re
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

import forked
import pytest

from .conftest import COLOURS, missing, new_context, violations

ROOT = Path(__file__).resolve().parents[2]
RUN = ("index", "gallery", "notebooks/00_start_here")
STORED = ("notebooks/01_chain_rule", "notebooks/exercises/01_chain_rule")  # one of each kind
MOST = 500_000  # bytes of a page with its styles and scripts, before its pictures
SOON = 2.0  # seconds to the first picture
PLAYING = "document.querySelectorAll('.cgviz-embed').length"
SHOWN = (
    "[...document.querySelectorAll('.cgviz-embed')]"
    ".filter((box) => box.shadowRoot?.querySelector('.cgviz-node')).length"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    if built := os.environ.get("CGVIZ_SITE"):
        return ROOT / built
    try:
        import furo  # noqa: F401
    except ImportError:
        missing("Sphinx is not installed: pip install -e '.[site]'")
    folder = tmp_path_factory.mktemp("site")
    command = [forked.python(), ROOT / "site" / "build.py", "--to", folder, *RUN]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site):
    return sorted(site.rglob("*.html"))


class Parsed(HTMLParser):
    """Where a page leads, its anchors and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("link", "script", "img", "source", "iframe"):
            self.loaded += [given[name] for name in ("href", "src", "srcset") if given.get(name)]


@pytest.fixture(scope="module")
def parsed(pages):
    return {page: Parsed(page.read_text(encoding="utf-8")) for page in pages}


def test_the_site_has_every_page_of_the_course(site):
    for path in [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("notebooks/exercises/*.ipynb")]:
        assert (site / path.relative_to(ROOT)).with_suffix(".html").is_file()
    for name in (
        "index",
        "gallery",
        "api",
        "search",
        "notebooks/glossary",
        "notebooks/cheat_sheet",
    ):
        assert (site / f"{name}.html").is_file()
    assert not list(site.rglob("*solutions*"))


def test_no_link_is_dead(parsed):
    dead = []
    for page, found in parsed.items():
        for link in found.links:
            target, anchor = urldefrag(unquote(link))
            if urlparse(target).scheme:
                continue
            path = (page.parent / target).resolve() if target else page
            anchors = parsed[path].anchors if path in parsed else {anchor}
            if not path.is_file() or anchor not in anchors:
                dead.append((page.name, link))
    assert dead == []


def test_nothing_is_loaded_from_elsewhere(site, parsed):
    loaded = {url for found in parsed.values() for url in found.loaded}
    for path in (*parsed, *site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        loaded |= {*re.findall(r"""(?:\burl\(|@import\s)\s*["']?([^"')\s;]*)""", text)}
    assert {urlparse(url).scheme for url in loaded} <= {"", "data"}
    assert not [url for url in loaded if url.startswith("//")]


def test_a_page_is_light_before_its_pictures(pages, parsed):
    for page in pages:
        text = re.sub(r'<script type="text/plain".*?</script>', "", page.read_text(), flags=re.S)
        text = re.sub(r"data:image/png;base64,[^\"]*", "", text)
        kept = [page.parent / urlparse(url).path for url in parsed[page].loaded]
        size = sum(path.stat().st_size for path in {*kept} if path.suffix in (".css", ".js"))
        assert len(text.encode()) + size < MOST, page


def test_no_formula_is_left_as_it_was_written(pages):
    """What the converter does not know it leaves as text."""
    for page in pages:
        for formula in re.findall(r"<math.*?</math>", page.read_text(encoding="utf-8"), re.S):
            assert not re.search(r"\\|<m[io]>&(amp;)?</m", formula), (page.name, formula)


def test_the_reference_has_every_public_function(site):
    import cgviz

    text = (site / "api.html").read_text(encoding="utf-8")
    assert [name for name in cgviz.__all__ if f'id="cgviz.{name}"' not in text] == []


def test_pages_that_were_run_have_live_pictures(site):
    """How many; each is shown and steps where every page is opened."""
    texts = {name: (site / f"{name}.html").read_text(encoding="utf-8") for name in RUN}
    counts = {name: text.count('class="cgviz-embed"') for name, text in texts.items()}
    assert counts == {"index": 1, "gallery": 13, "notebooks/00_start_here": 1}


# --- in the browser ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def offline(browser):
    """A window that is told no to everything but files, and what went wrong in it."""
    context = new_context(browser)
    context.set_offline(True)
    page = context.new_page()
    wrong = []
    page.on("request", lambda asked: asked.url.startswith("http") and wrong.append(asked.url))
    page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page, wrong
    context.close()


def of_each_kind(site, *names):
    """The pages of these names; of the whole site, all."""
    if "CGVIZ_SITE" in os.environ:
        return sorted(site.rglob("*.html"))
    return [site / f"{name}.html" for name in names]


def test_pages_of_each_kind_open_without_a_request_and_every_picture_steps(offline, site):
    page, wrong = offline
    for path in of_each_kind(site, *RUN, *STORED, "api", "search"):
        page.goto(path.as_uri())
        count = page.evaluate(PLAYING)
        page.wait_for_function(f"{SHOWN} === {count}")
        for i in range(count):
            where = page.locator(".cgviz-embed").nth(i).locator(".cgviz-where")
            page.locator(".cgviz-embed").nth(i).get_by_role("button", name="To the start").click()
            before = where.inner_text()
            page.keyboard.press("ArrowRight")
            assert where.inner_text() != before, (path.name, i)
        assert wrong == [], path.name


def test_a_slider_slides_and_the_numbers_answer(offline, site):
    page, wrong = offline
    page.goto((site / "gallery.html").as_uri())
    box = page.locator(".cgviz-embed").filter(has=page.locator(".cgviz-explore")).first
    slider = box.get_by_role("slider", name="x", exact=True)
    said = []
    for _ in range(3):
        said.append(box.locator(".cgviz-status").inner_text())
        slider.press("ArrowRight")
        page.wait_for_timeout(200)
    assert len({*said}) == 3, said
    assert wrong == []


def test_the_first_picture_is_there_soon(offline, site):
    page, _ = offline
    start = time.monotonic()
    page.goto((site / "notebooks/00_start_here.html").as_uri(), wait_until="commit")
    page.wait_for_function(f"{SHOWN} > 0")
    assert time.monotonic() - start < SOON


# Hides what has tags, classes and styles around it as something before it has, and nothing in it
# that has not: its colours are the same. Of thousands of words of code some dozens are left.
# A link with words beside it is no twin of one that is alone, which they need not set off.
HIDE_TWINS = """() => {
  const above = (each) => each.parentElement ?? each.getRootNode().host;
  const own = (each) => ["class", "style", "fill"].map((name) => each.getAttribute(name));
  const beside = (link) => link.closest("p, li, td, dd, div")?.textContent !== link.textContent;
  const look = (each) => (each ? [each.tagName, ...own(each), each.matches("tr:nth-child(even)"),
    each.matches("a") && beside(each), look(above(each))].join() : "");
  const inside = (root) => [...root.querySelectorAll("*")].flatMap(
    (each) => [each, ...(each.shadowRoot ? inside(each.shadowRoot) : [])]);
  const seen = new Set(), twins = new Set(), all = inside(document.body);
  for (const each of all) {
    const its = look(each);
    if (seen.has(its) && !each.shadowRoot) twins.add(each);
    seen.add(its);
  }
  const alike = (each) => [each, ...each.querySelectorAll("*")].every((one) => twins.has(one));
  for (const each of all.filter(alike)) each.style.setProperty("visibility", "hidden", "important");
}"""


DARK = """[...document.querySelectorAll(".cgviz-embed")].every(({ shadowRoot }) =>
  getComputedStyle(shadowRoot.querySelector(".cgviz-view")).getPropertyValue("--cgviz-paper").trim()
  === "#111111")"""


def test_axe_finds_nothing_in_light_and_dark(page, site):
    for path in of_each_kind(site, *RUN, "api", STORED[0]):
        page.emulate_media(color_scheme="light")
        page.goto(path.as_uri())
        page.wait_for_function(f"{SHOWN} === {PLAYING}")

        # Of what axe looks for, only colours differ from scheme to scheme.
        assert violations(page, rules={name: {"enabled": False} for name in COLOURS}) == [], path
        page.evaluate(HIDE_TWINS)
        assert violations(page, runOnly=COLOURS) == [], path
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(DARK)
        assert violations(page, runOnly=COLOURS) == [], (path, "dark")


def test_the_pictures_follow_the_theme_of_the_page(offline, site):
    page, _ = offline
    page.emulate_media(color_scheme="light")
    page.goto((site / "index.html").as_uri())
    paper = (
        "getComputedStyle(document.querySelector('.cgviz-embed').shadowRoot"
        ".querySelector('.cgviz-view')).getPropertyValue('--cgviz-paper').trim()"
    )
    page.wait_for_function(f"{SHOWN} === 1")
    seen = [page.evaluate(paper)]
    for _ in range(3):  # light, dark, and what the system says
        page.locator(".theme-toggle:visible").first.click()
        page.wait_for_timeout(200)
        assert page.evaluate(paper) == (
            "#111111" if page.evaluate("document.body.dataset.theme") == "dark" else "#ffffff"
        )
        seen.append(page.evaluate(paper))
    assert set(seen) == {"#ffffff", "#111111"}


def test_search_finds_a_word_without_a_server(offline, site):
    page, wrong = offline
    page.goto((site / "search.html").as_uri() + "?q=upstream")
    page.wait_for_selector("ul.search li")
    assert page.locator("ul.search li a").first.get_attribute("href")
    assert wrong == []
