"""Write the pages of the reference that come from the code: `make reference`, or `python docs/generate`."""

from reference_pages import PAGES, REFERENCE, page

for name in PAGES:
    (REFERENCE / name).write_text(page(name), "utf-8")
