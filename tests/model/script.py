"""A history as commands for a person. A step that has no command is a comment."""
import re

W = "/tmp/by-hand"


def script_of(steps, pool_fs):
    lines = [f"mkdir -p {W}/state {W}/images {W}/plain {W}/node"]
    if pool_fs == "tmpfs":
        lines += [f"mount -t tmpfs none {W}/images"]
    else:
        lines += [f"truncate -s 6G {W}/disk.img && mkfs.{pool_fs} -q {W}/disk.img && mount -o loop {W}/disk.img {W}/images"]
    lines += [_restart(None).splitlines()[-1], f"export CSI_ENDPOINT=unix://{W}/csi.sock"]
    return "\n".join(lines + [line_of(step) for step in steps])


def line_of(step):
    make = globals().get(f"_{step['do']}")
    line = make(step) if make else f"# not shown here: {step}"
    return line + (f"  # {step['disturbance']}, then again" if "disturbance" in step else "")


def _id(name):
    return "id_" + re.sub(r"\W", "_", name)


def _answer(field):
    return f"--json | jq -r .{field}"


def _capability(step):
    mode = (step.get("mode") or "SINGLE_NODE_WRITER").lower().replace("_", "-")
    return f"--access {mode}" + (" --block" if step["block"] else "")


def _staging(step):
    return f"--staging-path {W}/node/{step['volume']}/staging"


def _place(step):
    path = f"{W}/node/{step['volume']}/targets/{step['target']}"
    return path if step.get("file") is None else f"{path}/{step['file']}"


def _size(step):
    return f"--size {step['size'] // 1024}KiB"


def _create(step):
    source = f" --from-{step['source'][0]} ${_id(step['source'][1])}" if step["source"] else ""
    fs = f" --fs-type {step['fs']}" if step["fs"] and not step["source"] else ""
    return (f"{_id(step['volume'])}=$(mooring csi create {step['volume']} {_size(step)} --param pool={step['pool']}{fs} "
            f"{_capability(step)}{source} {_answer('volume.volume_id')})")


def _delete(step):
    return f"mooring csi delete ${_id(step['volume'])}"


def _stage(step):
    return (f"mkdir -p {W}/node/{step['volume']}/staging; "
            f"mooring csi stage ${_id(step['volume'])} {_staging(step)} {_capability(step)}")


def _unstage(step):
    return f"mooring csi unstage ${_id(step['volume'])} {_staging(step)}"


def _publish(step):
    read_only = " --read-only" if step["readonly"] else ""
    return (f"mkdir -p {W}/node/{step['volume']}/targets; mooring csi publish ${_id(step['volume'])} "
            f"--target-path {_place(step)} {_staging(step)} {_capability(step)}{read_only}")


def _unpublish(step):
    return f"mooring csi unpublish ${_id(step['volume'])} --target-path {_place(step)}"


def _write(step):
    flags = {"direct": " oflag=direct", "synced": " conv=fsync"}.get(step["how"], "")
    note = f"  # with {step['how']}" if step["how"].startswith("mmap") else ""
    return (f"python3 -c 'import sys, struct; sys.stdout.buffer.write(struct.pack(\"<Q\", {step['number']}) * 512)' | "
            f"dd of={_place(step)} bs=4096 seek={step['block']} conv=notrunc status=none iflag=fullblock{flags}{note}")


def _remove(step):
    return f"rm {_place(step)}"


def _fill(step):
    if not step["on"]:
        return f"rm {W}/images/.filler && sync -f {W}/images"
    return f"fallocate -l $(df --output=avail -B1 {W}/images | tail -1) {W}/images/.filler"


def _grow(step):
    return f"mooring csi expand ${_id(step['volume'])} {_size(step)}"


def _node_grow(step):
    return f"mooring csi node-expand ${_id(step['volume'])} --path {_place(step)}"


def _snapshot(step):
    return (f"{_id(step['snapshot'])}=$(mooring csi snapshot create {step['snapshot']} --volume ${_id(step['volume'])} "
            f"{_answer('snapshot.snapshot_id')})")


def _unsnapshot(step):
    return f"mooring csi snapshot delete ${_id(step['snapshot'])}"


def _kill(step):
    if step["who"] == "plugin":
        return "kill -KILL $plugin; wait\n" + _restart(step).splitlines()[-1]
    if step["who"] == "helper":
        return f"pkill -KILL -f 'mooring-mounter --mount-root {W}/node'"
    return f"# not shown here, because it would end the processes of other plugins, too: {step}"


def _restart(_):
    return ("kill $plugin; wait\n"
            f"mooring-plugin --endpoint {W}/csi.sock --state-dir {W}/state --mount-root {W}/node --node-id node-1 "
            f"--pool name=default,backend=image,path={W}/images --pool name=plain,backend=directory,path={W}/plain "
            "--pool name=memory,backend=tmpfs,size=1GiB & plugin=$!")
