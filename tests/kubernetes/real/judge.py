#!/usr/bin/env python3
"""Judges the suite's report: judge.py LISTED REPORT.xml... Fails if a spec failed that LISTED does not have, or if none passed.

A line of LISTED is a regular expression for CLASS: SPEC, two spaces and more, and the reason. CLASS.xml is the report's name.
A listed spec that passes is named, too. Specs that were not chosen are not counted."""
import pathlib
import re
import sys
import xml.etree.ElementTree


def listed_specs(path):
    for line in open(path, encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            spec, reason = re.split(r"\s{2,}", line.strip(), maxsplit=1)
            yield re.compile(spec), reason


def main(listed_path, reports):
    listed = list(listed_specs(listed_path))
    totals, bad = {}, []
    for report in reports:
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            name, status = pathlib.Path(report).stem + ": " + case.get("name"), case.get("status")
            skip = case.find("skipped")
            if skip is not None and skip.get("message") == "skipped":  # the suite itself gives a reason
                continue
            if ": [It]" not in name:
                if status not in ("passed", "skipped"):
                    bad.append(f"{status}: {name}")
                continue
            reason = next((reason for spec, reason in listed if spec.search(name)), None)
            if status in ("passed", "skipped"):
                kind = status
                if reason and status == "passed":
                    print(f"listed, but it passes: {name}")
            elif reason:
                kind = "listed"
                print(f"listed: {name}: {reason}")
            else:
                kind = "failed"
                bad.append(f"{status}: {name}")
            totals[kind] = totals.get(kind, 0) + 1
    for line in bad:
        print(line)
    print(", ".join(f"{totals.get(kind, 0)} {kind}" for kind in ("passed", "failed", "listed", "skipped")))
    return 1 if bad or not totals.get("passed") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
