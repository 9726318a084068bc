"""Make a page of Markdown ready for print: an HTML file beside it, set in two columns on A4.

python tools/print_page.py [page.md ...]     default: the cheat sheet
"""

from __future__ import annotations

import sys
from pathlib import Path

import mistune

ROOT = Path(__file__).resolve().parents[1]
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
@page {{ size: A4; margin: 9mm; }}
body {{ font: 8.8pt/1.3 system-ui, "DejaVu Sans", Arial, sans-serif; color: #111; margin: 0 auto;
  max-width: 192mm; columns: 2; column-gap: 7mm; }}
h1 {{ font-size: 14pt; margin: 0 0 1mm; }}
h2 {{ font-size: 10pt; margin: 2.2mm 0 0.8mm; color: #0072b2; border-bottom: 0.4pt solid; }}
p {{ margin: 0.9mm 0 0.5mm; }}
table {{ border-collapse: collapse; width: 100%; }}
th {{ display: none; }}
td {{ border-bottom: 0.3pt solid #bbb; padding: 0.35mm 1.5mm 0.35mm 0; vertical-align: top; }}
pre, code {{ font: 6.9pt/1.3 ui-monospace, "DejaVu Sans Mono", Consolas, monospace; }}
pre {{ margin: 0.4mm 0; padding: 0.7mm 1.2mm; background: #f1f4f7; white-space: pre-wrap; }}
pre, tr, li {{ break-inside: avoid; }}
h2, p:has(+ pre) {{ break-after: avoid; }}
</style>
</head>
<body>
{body}</body>
</html>
"""


def html(markdown: str) -> str:
    """The page as HTML."""
    title = mistune.escape(markdown.splitlines()[0].removeprefix("# "))
    body = mistune.create_markdown(plugins=["table"])(markdown)
    return PAGE.format(title=title, body=body)


if __name__ == "__main__":
    for name in sys.argv[1:] or [str(ROOT / "notebooks" / "cheat_sheet.md")]:
        page = Path(name)
        page.with_suffix(".html").write_text(html(page.read_text("utf-8")), "utf-8")
        print("wrote", page.with_suffix(".html"))
