"""`falsifier report`: a campaign's record as one HTML page, complete in itself."""

from __future__ import annotations

import sys
from pathlib import Path

from falsifier.cli.arguments import Parser, non_negative_int
from falsifier.cli.outputs import demand_others


def run(words: list[str], started: float) -> int:
    """Write the page and say where it is."""
    options = _parser().parse_args(words)

    from falsifier.campaign.report.data import record_folder
    from falsifier.campaign.report.page import PICTURES, write_report

    campaign = Path(options.campaign)
    out = Path(options.out) if options.out is not None else record_folder(campaign) / "report.html"
    for record in filter(None, (options.campaign, options.against)):
        _demand_spared(out, Path(record))
    against = None if options.against is None else Path(options.against)
    pictures = PICTURES if options.pictures is None else options.pictures
    recorded = write_report(campaign, out, against, pictures)
    print(out)
    if not recorded.ended:
        print("falsifier: the campaign has not ended: this is its record so far", file=sys.stderr)
    return 0


def _demand_spared(out: Path, campaign: Path) -> None:
    """Raise InputError where the page would take the place of a file of a campaign."""
    if not out.exists():
        return
    from falsifier.campaign.exports import RESULTS
    from falsifier.campaign.report.data import read_record, record_folder
    from falsifier.campaign.schema import DATABASE

    folder, recorded = record_folder(campaign), read_record(campaign)
    command = recorded.facts.get("command", {})
    given = [*command.get("instances", ()), command.get("dataset"), command.get("budgets"), command.get("config")]
    asked = {row.query for row in recorded.rows}
    files = [folder / DATABASE, folder / f"{DATABASE}-wal", folder / RESULTS, *folder.rglob("*.counterexample.gz")]
    models = {path for row in recorded.rows for _, path in row.networks}
    demand_others({"--out": out}, [*files, *given, *asked], models, "the campaign")


def _parser() -> Parser:
    parser = Parser(
        "report",
        "Write what a campaign found as one HTML page that needs no network: the instances, time and evaluations, "
        "open disjuncts nearest first, witnesses as pictures. The campaign may still run, or have been interrupted.",
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="the folder that campaign wrote (--out), or its record")
    parser.add_argument("--out", metavar="FILE", help="where the page goes (default report.html beside the record)")
    parser.add_argument("--against", metavar="OTHER", help="another campaign to compare with: gained, lost, speed")
    parser.add_argument(
        "--pictures", type=non_negative_int, metavar="N", help="of how many witnesses there are pictures (default 24)"
    )
    return parser
