"""Ask roc-validator of published folders, as `make test-crates` does; nothing is downloaded.

Arguments: a file with RO-Crate's own terms, and published folders. What is required of a Provenance
Run Crate fails; what is recommended is counted.
"""

import io
import json
import sys
import urllib.request
from email.message import Message
from pathlib import Path
from urllib.response import addinfourl

import requests
from rocrate_validator import models, services

PROFILE = "provenance-run-crate-0.5"
# The terms that the package rocrate brings are of RO-Crate 1.3. Of those that our crates use, one
# had another meaning in 1.1, of which Provenance Run Crates are.
TERMS = json.loads(Path(sys.argv[1]).read_text("utf-8"))["@context"]
TERMS |= {"ComputationalWorkflow": "https://bioschemas.org/ComputationalWorkflow"}
# Of the terms for runs they use none.
SERVED = {
    "/ro/crate/": json.dumps({"@context": TERMS}).encode(),
    "/ro/terms/workflow-run": json.dumps({"@context": {}}).encode(),
}


def served(address: str) -> bytes:
    return next((body for part, body in SERVED.items() if part in address), b"")


class Offline(urllib.request.BaseHandler):
    """Answers for the addresses of terms, by which rdflib reads them."""

    def https_open(self, request: urllib.request.Request) -> addinfourl:
        header = Message()
        header["Content-Type"] = "application/ld+json"
        return addinfourl(io.BytesIO(served(request.full_url)), header, request.full_url, 200)

    http_open = https_open


def send(self: requests.Session, request: requests.PreparedRequest, **_: object) -> object:
    found = requests.Response()
    found.request, found.url = request, str(request.url)
    found._content = served(found.url)
    found.status_code = 200 if found.content else 404
    found.headers["Content-Type"] = "application/ld+json"
    return found


urllib.request.install_opener(urllib.request.build_opener(Offline))
requests.Session.send = send  # type: ignore[assignment]
failed = False
for folder in sys.argv[2:]:
    settings = services.ValidationSettings(
        rocrate_uri=folder,
        profile_identifier=PROFILE,
        requirement_severity=models.Severity.RECOMMENDED,
        no_cache=True,
    )
    issues = services.validate(settings).get_issues()
    required = [one for one in issues if one.severity == models.Severity.REQUIRED]
    failed |= bool(required)
    told = f"{len(required)} requirements fail, {len(issues) - len(required)} recommendations do"
    print(f"{folder}: {PROFILE}: {told}")
    for one in required:
        print(f"  {one.check.identifier}: {one.message}")
sys.exit(failed)
