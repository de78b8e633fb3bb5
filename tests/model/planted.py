#!/usr/bin/python3
"""Proof that the model finds faults: builds the programs with one fault planted, and plays until it is found.
For tests/model/run --planted."""
import argparse
import dataclasses
import filecmp
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGETS = ("mooring-plugin", "mooring-mounter")


@dataclasses.dataclass
class Fault:
    name: str
    what: str
    edits: list  # (file, text, its replacement)
    kinds: str = ""  # of histories that can find it; empty: all


LOOP_CHANGE, LOOP_DEVICE = "mounter/loop/loop_change.cc", "mounter/loop/loop_device.cc"
PUBLISHER, TEARDOWN = "plugin/node/publisher.cc", "plugin/node/volume_teardown.cc"
HELPER = "mounter/helper/helper_mounter.cc"
IMAGE = "plugin/backends/image/image_backend.cc"

FAULTS = [
    Fault("no-flush", "a detach drops what was not synced", [
        (LOOP_CHANGE, "  MOORING_RETURN_IF_ERROR(FlushDevice(fd.get(), loop.device));\n", ""),
        (LOOP_CHANGE, "ChangeStatus(fd.get(), loop.device, SetAutoClear)",
         "(::ioctl(fd.get(), LOOP_CLR_FD) == 0 ? absl::OkStatus() : ChangeStatus(fd.get(), loop.device, SetAutoClear))"),
        ("mounter/kernel/kernel_mounter.cc", "  return FlushDevice(fd.get(), device);", "  return absl::OkStatus();")]),
    Fault("label-believed", "the label that a task writes names the volume", [
        (LOOP_DEVICE, "  if (!IsRawNumber(number)) return LabelIn(status);",
         "  if (!IsRawNumber(number) || LabelIn(status).size() > 1) return LabelIn(status);")]),
    Fault("size", "an image is larger than its volume", [
        (IMAGE, "MakeImage(PathOf(draft.id), draft.bytes)", "MakeImage(PathOf(draft.id), draft.bytes + (1U << 20U))")]),
    Fault("writable", "a read-only target can be written", [
        ("mounter/mount/new_mount.cc", "  attributes.attr_set = AttributesOf(flags);\n  return attributes;",
         "  attributes.attr_set = AttributesOf(flags) & ~static_cast<std::uint64_t>(MOUNT_ATTR_RDONLY);\n  return attributes;")]),
    Fault("stale-copy", "a copy in use lacks what was not synced", [
        ("mounter/copy/copy_instant.cc", "      MOORING_RETURN_IF_ERROR(FlushDevice(device.get(), job.source.path));\n",
         "      if (device.get() < 0) return FlushDevice(device.get(), job.source.path);\n"),
        ("mounter/copy/freeze.cc", "  return ::syncfs(root_.get()) == 0 ?", "  return root_.get() >= 0 ?")]),
    Fault("dead-target", "a target that was unpublished still counts", [
        (TEARDOWN, "  MOORING_RETURN_IF_ERROR(store_.DeleteEnded(target_path));\n  return true;", "  return true;"),
        (PUBLISHER, "    if (!live) {", "    if (!live && use.path.empty()) {")]),
    Fault("device-stays", "an unstage keeps the device", [
        (TEARDOWN, "    MOORING_RETURN_IF_ERROR(devices_.Release(ending.known->volume_id, staging_path));\n", "")]),
    Fault("no-growth", "a device in use does not grow", [
        ("plugin/node/node_volumes.cc", "  MOORING_RETURN_IF_ERROR(AsExpandMaySay(devices_.Resize(volume)));\n", "")]),
    Fault("group", "all snapshots of a group are of one volume", [
        (IMAGE, "copies.push_back({draft.source,", "copies.push_back({drafts.front().source,")]),
    Fault("deleted-in-use", "a volume in use is deleted", [
        (IMAGE, "  if (loops->empty()) return absl::OkStatus();", "  if (!loops->empty() || loops->empty()) return absl::OkStatus();"),
        (IMAGE, "  MOORING_RETURN_IF_ERROR(LockAttachment(*image, path, ImageAccess::kWrite));  // until it is deleted\n", ""),
        (IMAGE, "  return image.ok() ? LockAttachment(*image, path, ImageAccess::kWrite) : image.status();",
         "  return image.status();"),
        ("plugin/model/volume_mount.cc", "    return FailedPrecondition(\"the volume is in use on this host, mounted",
         "    if (volume_id.empty()) return FailedPrecondition(\"the volume is in use on this host, mounted")]),
    Fault("old-data", "a reader of a device beside its writer", [
        (PUBLISHER, "  if (!other) return absl::OkStatus();", "  if (!other || other) return absl::OkStatus();")]),
    Fault("one-uuid", "a copy has the UUID of its source", [
        ("plugin/catalog/volume_maker.cc", "spec.is_mounted ? record.fs_type : \"\"",
         "spec.is_mounted ? std::string() : \"\"")]),
    Fault("two-writers", "a single writer has two targets", [
        (PUBLISHER, "  return !AllowsSecondTarget(spec.capability.mode) ||", 
         "  return (use.path.empty() && !AllowsSecondTarget(spec.capability.mode)) ||")]),
    Fault("formatted-again", "a stage formats a filesystem that is there", [
        ("plugin/node/stage/filesystem_stager.cc", "  if (found.content == FilesystemInfo::Content::kEmpty && !in_use) {",
         "  if (found.content != FilesystemInfo::Content::kForeign && !in_use) {")]),
    Fault("disk-twice", "two volumes have the same disk", [
        ("plugin/backends/device/device_backend.cc", "  return IsTaken(disk, taken) ?",
         "  return IsTaken(disk, taken) && disk.link.empty() ?")], "devices"),
    Fault("no-fence", "a volume is taken from a node that has it attached", [
        ("plugin/catalog/volume_publications.cc", "  if (!absl::IsFailedPrecondition(unused)) return unused;",
         "  if (!absl::IsFailedPrecondition(unused) || !node.empty()) return absl::OkStatus();")], "shared"),
    Fault("no-room-no-image", "a stage that finds no room removes the image", [
        ("mounter/filesystem/filesystem_format.cc", "  absl::Cleanup remove = [&aside] { ::unlink(aside.c_str()); };",
         "  absl::Cleanup remove = [&aside, &image] { ::unlink(aside.c_str()), ::unlink(image.path.c_str()); };")], "full"),
    Fault("own-holders", "a device is not released if another build holds it", [
        ("mounter/loop/device_holder.cc", "  if (size < 0 && MeansNoHolder(errno)) return false;\n",
         "  if (size < 0 && MeansNoHolder(errno)) return false;\n"
         "  std::array<char, 512> own = {}, its = {};\n"
         "  if (::readlink(\"/proc/self/exe\", own.data(), 511) < 0 ||\n"
         "      ::readlink((\"/proc/\" + process + \"/exe\").c_str(), its.data(), 511) < 0 || own != its) return false;\n")]),
    Fault("lazy-copy", "the content of a copy is not synced", [
        ("mounter/copy/copy.cc", "  return ::fdatasync(file.fd().get()) == 0 ? absl::OkStatus()",
         "  return file.fd().get() >= 0 ? absl::OkStatus()")], "power-cuts"),
    Fault("hangs-for-ever", "a path at which a call hung hangs for ever", [
        ("mounter/helper/helper_mounter.h", "    bool read_only", "    bool slow = false;\n    bool read_only"),
        (HELPER, "hanging_.push_back({std::move(lease.channel), policy.path,",
         "hanging_.push_back({std::move(lease.channel), policy.path, waited > std::chrono::milliseconds(90),"),
        (HELPER, "  std::erase_if(hanging_, [](const Hanging& call) { return HasInput",
         "  std::erase_if(hanging_, [](const Hanging& call) { return !call.slow && HasInput")], "power-cuts"),
]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def copy_tree(tree):
    """The tracked files. A file that is alike stays, so that little is built."""
    for file in subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout.split("\0")[:-1]:
        source, copy = f"{ROOT}/{file}", f"{tree}/{file}"
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if not os.path.islink(source) and not (os.path.exists(copy) and filecmp.cmp(source, copy, shallow=False)):
            shutil.copy(source, copy)


def edit(tree, edits):
    """Returns what puts the files back."""
    before = {}
    for file, text, replacement in edits:
        path = f"{tree}/{file}"
        with open(path, encoding="utf-8") as source:
            content = source.read()
        before.setdefault(path, content)
        if content.count(text) != 1:
            raise SystemExit(f"{file} has {content.count(text)} times, not once: {text}")
        with open(path, "w", encoding="utf-8") as source:
            source.write(content.replace(text, replacement))

    def restore():
        for path, content in before.items():
            with open(path, "w", encoding="utf-8") as source:
                source.write(content)
    return restore


def texts_that_are_gone():
    """A fault that cannot be planted any more, because the code has changed."""
    gone = []
    for fault in FAULTS:
        for file, text, _ in fault.edits:
            with open(f"{ROOT}/{file}", encoding="utf-8") as source:
                if (times := source.read().count(text)) != 1:
                    gone.append(f"{fault.name}: {file} has {times} times, not once: {text.strip()}")
    return gone


def play(options, fault, build):
    """(steps, the difference), or (steps, None)."""
    done = subprocess.run(
        [f"{HERE}/play.py", "--programs", f"{build}/bin", "--work", options.work, "--seed", str(options.seed), "--seconds",
         str(options.seconds), "--shrink", "0", *(["--kinds", fault.kinds] if fault.kinds else [])], capture_output=True, text=True)
    found = re.search(r"^seed (\d+), step (\d+) (.*):\n(.*)", done.stdout, re.MULTILINE)
    before = re.search(r"(\d+) steps(?: without|,)", done.stdout)
    steps = int(before[1]) if before else 0
    if done.returncode == 0:
        return steps, None
    if not found:
        raise SystemExit(done.stdout + done.stderr)
    return steps + int(found[2]), found[4][:150]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="only see that each fault can be planted")
    parser.add_argument("--work")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=int, default=300, help="for each fault")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    gone = texts_that_are_gone()
    print(*gone, sep="\n", end="\n" if gone else "")
    if gone or options.check:
        return 1 if gone else 0
    if options.work is None or options.seed is None:
        parser.error("--work and --seed are needed")
    tree = f"{ROOT}/build/planted"
    build = f"{tree}/build/release"
    os.makedirs(tree, exist_ok=True)
    copy_tree(tree)
    run("cmake", "--preset", "release", "-S", tree, "-B", build)
    missed = 0
    for fault in FAULTS:
        if options.names and fault.name not in options.names:
            continue
        restore = edit(tree, fault.edits)
        try:
            run("cmake", "--build", build, "-j", options.jobs, "--target", *TARGETS)
            started = time.monotonic()
            steps, difference = play(options, fault, build)
        finally:
            restore()
        missed += difference is None
        result = f"found after {steps} steps, {time.monotonic() - started:.0f} s: {difference}" if difference else f"MISSED in {steps} steps"
        print(f"{fault.name:16} {fault.what}: {result}", flush=True)
    print(f"planted faults: {missed} missed", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
