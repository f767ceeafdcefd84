"""Make Snakemake's report open on the page of claims, not on the graph of rule names."""

import zipfile
from pathlib import Path

from fedatlas.files import write_atomically

# Opens the page as the report's own menu does. `app` exists once the report is drawn.
_OPEN = b"""<script>
(function open() {
    if (app === undefined) return setTimeout(open, 10);
    const claims = results["results/claims.html"];
    if (claims) app.setView({ content: "html", contentPath: claims.data_uri });
})();
</script>
"""
_END = b"</body>"


def open_on_claims(report: Path) -> None:
    """Rewrite the zip file that `snakemake --report` made."""
    with (
        zipfile.ZipFile(report) as made,
        write_atomically(report) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as ours,
    ):
        for item in made.infolist():
            content = made.read(item)
            if item.filename.endswith("/report.html"):
                before, end, after = content.rpartition(_END)
                content = before + _OPEN + end + after
            ours.writestr(item, content)
