"""The page itself: facts and words through one template, into one file that needs no network."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import plotly.offline  # pyright: ignore[reportMissingTypeStubs]

from onlooker.errors import FolderError
from onlooker.folder import RunFolder
from onlooker.privacy.forecast import forecast
from onlooker.privacy.statement import ranges, to_json
from onlooker.report import charts, disclosure, glossary, maps, network, settings, told, words
from onlooker.report.between import Between
from onlooker.report.facts import Facts, plain, read, sentences, unguarded, worst_guarded


def write(folder: RunFolder, out: Path | None = None) -> Path:
    """Write the page of a run, finished or not, whole or not at all; give its path back.

    Args:
        folder: the run.
        out: where to; `report.html` in the folder by default.

    Raises:
        OnlookerError: if the folder is damaged or the page cannot be written.
    """
    page = out or folder.path / "report.html"
    content = render(read(folder))
    draft = page.parent / f".report.draft-{os.getpid()}"
    try:
        draft.write_text(content, encoding="utf-8")
        os.replace(draft, page)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise FolderError(
            f"the report {page} cannot be written: {error.strerror or error}; name another by --out."
        ) from error
    return page


def render(facts: Facts) -> str:
    """The page as text: what it shows of the folder is escaped, and no script but its own two may run."""
    scripts = [_plotly(), _text("page.js")]
    measured, spent, signal = charts.measured(facts), charts.spent(facts), charts.signal(facts)
    private = told.told(facts)
    heat, groups, known = maps.pairs(facts), network.graph(facts), facts.between
    drawn = [chart for chart in (*measured, *private, spent, signal, heat, groups) if chart]
    return _template().render(
        facts=facts,
        terms=facts.terms,
        words=words,
        maps=maps,
        rows=words.rows(facts),
        heat=heat,
        groups=groups,
        worst_pairs=maps.worst_pairs(known) if known else [],
        assumed=known is not None and any(cell.assumed is not None for cell in known.worst),
        measured=measured,
        told=private,
        spent=spent,
        signal=signal,
        figures=strict({chart.name: chart.figure for chart in drawn}),
        statement=strict(statement(facts)),
        verdict=words.verdict(facts),
        unguarded=unguarded(facts.shown),
        worst=worst_guarded(facts.shown),
        planned=worst_guarded(facts.planned),
        threat_model=glossary.threat_model(facts.terms, facts.assumed),
        observers=glossary.cast_of_observers(facts),
        glossary=glossary.glossary(facts),
        settings=settings.settings(facts),
        items=disclosure.items(facts),
        uncharged=disclosure.uncharged(facts),
        randomness=settings.randomness(facts),
        seeded=settings.seeded(facts),
        warnings=sentences(facts.environment.get("warnings")),
        forecast=forecast(facts.terms).sentence(),
        printed=str(facts.environment.get("printed") or ""),
        provenance=settings.provenance(facts),
        style=_text("style.css"),
        scripts=scripts,
        policy=_policy(scripts),
    )


def statement(facts: Facts) -> dict[str, Any]:
    """The page for programs: strict JSON, null for no guarantee and for every value that is not finite."""
    worst = worst_guarded(facts.shown)
    return {
        "format": 1,
        "name": facts.name,
        "verdict": words.verdict(facts),
        "unit": facts.terms.unit,
        "rounds": {"planned": facts.terms.rounds, "charged": facts.charged, "committed": facts.committed},
        "worst": {
            "no-guarantee": [name for finding in unguarded(facts.shown) for name in finding.observers],
            "observers": [name for finding in worst for name in finding.observers],
            "epsilon": worst[0].price.epsilon if worst else None,
        },
        **to_json(facts.ledger, facts.findings, facts.group_names),
        "planned": to_json(facts.ledger, facts.planned)["rows"],
        "epsilon-by-round": [
            {
                "observers": list(curve.observers),
                "subject": f"client:{curve.subject}",
                "rounds": list(curve.rounds),
                "epsilon": [charts.finite(price.epsilon) for price in curve.prices],
                "accountant": [price.accountant for price in curve.prices],
            }
            for curve in facts.curves
        ],
        "between": _between(facts.between),
        "metrics": list(facts.metrics),
        "disclosure": [
            {"what": item.what, "tag": item.tag, "charged": item.charged} for item in disclosure.items(facts)
        ],
        "uncharged": {kind.what: list(kind.sentences) for kind in disclosure.uncharged(facts)},
        "randomness": list(settings.randomness(facts)),
        "forecast": forecast(facts.terms).sentence(),
        "environment": facts.environment,
        "configuration": facts.configuration,
        "digests": [{"round": release.round, "digest": release.digest} for release in facts.ledger.releases],
    }


def _between(known: Between | None) -> dict[str, Any] | None:
    """The map for programs: null where there is no guarantee, and where a client looks at itself."""
    if known is None:
        return None
    return {
        "rounds": known.rounds,
        "accountant": known.accountant,
        "clients": [ranges(clients) for clients in known.rows],
        "epsilon": [[charts.finite(cell.epsilon) for cell in line] for line in known.cells],
        "worst-by-distance": [
            {
                "distance": charts.finite(cell.distance),
                "subject": f"client:{cell.subject}",
                "observer": f"client:{cell.observer}",
                "epsilon": charts.finite(cell.epsilon),
                "releases": cell.releases,
                "theorem": cell.theorem,
                "assumed-not-proven": cell.assumed,
            }
            for cell in known.worst
        ],
    }


def strict(value: Mapping[str, Any]) -> str:
    """JSON that may stand within a page: no number that is not finite, and nothing that ends a script."""
    text = json.dumps(plain(value), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _template() -> jinja2.Template:
    return _environment().from_string(_text("page.html"))


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def _plotly() -> str:
    return plotly.offline.get_plotlyjs()


def _text(name: str) -> str:
    return resources.files("onlooker.report").joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """Content security: the page's own scripts by their hashes, and no connection to anywhere."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    own = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {own}; style-src 'unsafe-inline'; img-src data: blob:"


def bundled(template: str, figures: Mapping[str, Any], **values: Any) -> str:
    """Another page in this one's style, with its scripts and its policy.

    Args:
        template: Jinja, with places for `style`, `scripts`, `policy` and `figures`.
        figures: what Plotly draws into the element of each name.
        values: whatever else the template shows; it is escaped.
    """
    scripts = [_plotly(), _text("page.js")]
    return (
        _environment()
        .from_string(template)
        .render(figures=strict(figures), style=_text("style.css"), scripts=scripts, policy=_policy(scripts), **values)
    )
