"""check_sbom.py TREE PACKAGE: the bill of materials of a package's tree is valid SPDX 2.3, and true.

Valid: it has the fields that the SPDX 2.3 JSON schema requires, with the right types and values, and no unknown field. This
file lists only the fields that packaging/sbom writes. True: the files and their sums are those of the tree. Each library
that a program loads or contains is of a listed package, in the installed version.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys

ID = r"SPDXRef-[A-Za-z0-9.-]+"
TEXT = r"(?s).+"
LICENSE = r"NOASSERTION|NONE|Apache-2\.0"
RELATIONS = r"DESCRIBES|STATIC_LINK|DYNAMIC_LINK|RUNTIME_DEPENDENCY_OF|BUILD_DEPENDENCY_OF"

# A field: its kind, and whether it has to be there. A kind: a pattern of a text, [kind], {field: …} or a type.
SUM = {"algorithm": ("SHA1|SHA256", True), "checksumValue": ("[0-9a-f]{40}|[0-9a-f]{64}", True)}
REFERENCE = {
    "referenceCategory": ("PACKAGE-MANAGER", True),
    "referenceType": ("purl", True),
    "referenceLocator": (r"pkg:deb/debian/[a-z0-9.%A-F-]+@[0-9][A-Za-z0-9.~%-]*\?arch=[a-z0-9]+", True),
}
PACKAGE = {
    "SPDXID": (ID, True),
    "name": (TEXT, True),
    "versionInfo": (r"[0-9][A-Za-z0-9.+:~-]*", True),
    "supplier": (r"(Organization|Person): .+|NOASSERTION", True),
    "downloadLocation": ("NOASSERTION|NONE|https://.+", True),
    "sourceInfo": (TEXT, True),
    "filesAnalyzed": (bool, True),
    "packageVerificationCode": ({"packageVerificationCodeValue": ("[0-9a-f]{40}", True),
                                 "packageVerificationCodeExcludedFiles": ([r"\./.+"], True)}, False),
    "licenseConcluded": (LICENSE, True),
    "licenseDeclared": (LICENSE, True),
    "copyrightText": (TEXT, True),
    "primaryPackagePurpose": ("APPLICATION", False),
    "hasFiles": ([ID], False),
    "homepage": (r"https?://.+", False),
    "externalRefs": ([REFERENCE], False),
}
FILE = {
    "SPDXID": (ID, True),
    "fileName": (r"\./.+", True),
    "checksums": ([SUM], True),
    "fileTypes": (["BINARY|TEXT|ARCHIVE"], True),
    "licenseConcluded": (LICENSE, True),
    "copyrightText": (TEXT, True),
}
RELATION = {
    "spdxElementId": (ID, True),
    "relationshipType": (RELATIONS, True),
    "relatedSpdxElement": (ID, True),
    "comment": (TEXT, False),
}
DOCUMENT = {
    "spdxVersion": (r"SPDX-2\.3", True),
    "dataLicense": (r"CC0-1\.0", True),
    "SPDXID": ("SPDXRef-DOCUMENT", True),
    "name": (TEXT, True),
    "documentNamespace": (r"https://[^#]+", True),
    "creationInfo": ({"created": (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", True),
                      "creators": ([r"(Tool|Organization|Person): .+"], True)}, True),
    "documentDescribes": ([ID], True),
    "packages": ([PACKAGE], True),
    "files": ([FILE], True),
    "relationships": ([RELATION], True),
}


def need(holds, what):
    if not holds:
        sys.exit(f"check_sbom: {what}")


def check(value, kind, where):
    if isinstance(kind, dict):
        need(isinstance(value, dict), f"{where} is no object")
        for field, (inner, required) in kind.items():
            need(field in value or not required, f"{where} lacks {field}")
        for field, inner in value.items():
            need(field in kind, f"{where} has an unknown {field}")
            check(inner, kind[field][0], f"{where}.{field}")
    elif isinstance(kind, list):
        need(isinstance(value, list) and value, f"{where} is no list, or an empty one")
        for number, inner in enumerate(value):
            check(inner, kind[0], f"{where}[{number}]")
    elif kind is bool:
        need(isinstance(value, bool), f"{where} is neither true nor false")
    else:
        need(isinstance(value, str) and re.fullmatch(kind, value), f"{where} is {value!r}")


def check_identities(document):
    known = [document["SPDXID"]] + [entry["SPDXID"] for entry in document["packages"] + document["files"]]
    need(len(known) == len(set(known)), "an SPDXID is there twice")
    for relation in document["relationships"]:
        for end in ("spdxElementId", "relatedSpdxElement"):
            need(relation[end] in known, f"a relationship names {relation[end]}, which is not there")
    for package in document["packages"]:
        need(package["filesAnalyzed"] == ("packageVerificationCode" in package), f"the files of {package['name']}")


def check_files(document, tree, bill):
    there = {"./" + str(path.relative_to(tree)): path for path in tree.rglob("*")
             if path.is_file() and not path.is_symlink() and tree / "DEBIAN" not in path.parents and path != bill}
    listed = {entry["fileName"]: entry for entry in document["files"]}
    need(there.keys() == listed.keys(), f"files differ: {sorted(there.keys() ^ listed.keys())}")
    for name, path in there.items():
        for checksum in listed[name]["checksums"]:
            found = hashlib.new(checksum["algorithm"].lower(), path.read_bytes()).hexdigest()
            need(found == checksum["checksumValue"], f"the {checksum['algorithm']} of {name}")
    own = document["packages"][0]
    sums = sorted(hashlib.sha1(path.read_bytes()).hexdigest() for path in there.values())
    code = hashlib.sha1("".join(sums).encode()).hexdigest()
    need(own["packageVerificationCode"]["packageVerificationCodeValue"] == code, "the verification code")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def owners(libraries):
    """{library: its package}, of one question: dpkg reads all that it has for each. Not those of other architectures."""
    directory = output("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    found = output("dpkg-query", "--search", *(f"*/{directory}/{library}" for library in sorted(libraries)))
    lines = (line.partition(": ") for line in found.splitlines())
    return {path.rsplit("/", 1)[-1]: package.split(",")[0].split(":")[0] for package, _, path in lines}


def needed(tree, program):
    dynamic = output("readelf", "--dynamic", "--wide", str(tree / program["fileName"]))
    return re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)


def identity(package):
    return "SPDXRef-Package-" + package.replace("+", "-")


def check_programs(document, tree):
    listed = {package["name"]: package["versionInfo"] for package in document["packages"][1:]}
    known = output("dpkg-query", "--show", "--showformat=${Package} ${Version}\n", *listed).splitlines()
    for name, version in listed.items():
        need(f"{name} {version}" in known, f"the version of {name} is {version}, which is not what is installed")
    ties = {(relation["spdxElementId"], relation["relationshipType"], relation["relatedSpdxElement"])
            for relation in document["relationships"]}
    programs = [entry for entry in document["files"] if entry["fileTypes"] == ["BINARY"]]
    need(programs, "no program is listed")
    of_library = owners({library for program in programs for library in needed(tree, program)})
    for program in programs:
        for library in needed(tree, program):
            need((program["SPDXID"], "DYNAMIC_LINK", identity(of_library[library])) in ties,
                 f"{program['fileName']} loads {library}, of {of_library[library]}, which is not listed so")
        for package in ("libprotobuf-dev", "libabsl-dev"):  # of each program of ours
            need((program["SPDXID"], "STATIC_LINK", identity(package)) in ties,
                 f"{program['fileName']} has {package} in it, which is not listed so")


def main(tree, package):
    bill = tree / f"usr/share/doc/{package}/{package}.spdx.json"
    document = json.loads(bill.read_text())
    check(document, DOCUMENT, "document")
    check_identities(document)
    check_files(document, tree, bill)
    check_programs(document, tree)
    own = document["packages"][0]
    need(own["name"] == package and document["documentDescribes"] == [own["SPDXID"]], "what it describes")
    need(re.search("commit [0-9a-f]{12}|commit unknown", own["sourceInfo"]), "our commit")
    for name in (entry["name"] for entry in document["packages"][1:]):
        inside = any(
            (relation["relationshipType"] == "STATIC_LINK" and relation["relatedSpdxElement"] == identity(name)) or
            (relation["relationshipType"] == "BUILD_DEPENDENCY_OF" and relation["spdxElementId"] == identity(name))
            for relation in document["relationships"])
        kept = (bill.parent / "linked" / f"{name}.copyright").exists()
        need(inside == kept, f"the copyright of {name}, which is {'' if inside else 'not '}in a program")


main(pathlib.Path(sys.argv[1]), sys.argv[2])
