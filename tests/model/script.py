"""A history as commands for a person. A step that has no command is a comment."""
import re

W = "/tmp/by-hand"


def script_of(steps, pool_fs):
    lines = [f"mkdir -p {W}/images {W}/plain {W}/links"]
    if pool_fs == "tmpfs":
        lines += [f"mount -t tmpfs none {W}/images"]
    else:
        lines += [f"truncate -s 6G {W}/disk.img && mkfs.{pool_fs} -q {W}/disk.img && mount -o loop {W}/disk.img {W}/images"]
    if any(step.get("pool") == "disks" for step in steps):
        lines += [f"truncate -s {size}M {W}/{name} && ln -s $(losetup --find --show {W}/{name}) {W}/links/{name}"
                  for name, size in (("disk-0", 16), ("disk-1", 20))]
    if any("node" in step for step in steps):
        lines += [f"chmod 700 {W}/images"]
    lines += [_start(step) for step in {step.get("node", 0): step for step in steps}.values()]
    return "\n".join(lines + [line_of(step) for step in steps])


def line_of(step):
    make = globals().get(f"_{step['do']}")
    line = make(step) if make else f"# not shown here: {step}"
    node = f"export CSI_ENDPOINT=unix://{_node(step)}/csi.sock; " if "node" in step and make else ""
    return node + line + (f"  # {step['disturbance']}, then again" if "disturbance" in step else "")


def _node(step):
    return f"{W}/node-{step.get('node', 0)}"


def _start(step):
    """In a history with nodes the pool is shared."""
    own, node = _node(step), step.get("node", 0)
    shared = ",shared=true" if "node" in step else ""
    return (f"mkdir -p {own}/state {own}/mounts; mooring-plugin --endpoint {own}/csi.sock --state-dir {own}/state "
            f"--mount-root {own}/mounts --node-id node-{node} --pool name=default,backend=image,path={W}/images{shared} "
            f"--pool name=plain,backend=directory,path={W}/plain --pool name=memory,backend=tmpfs,size=1GiB "
            f"--pool 'name=disks,backend=device,path={W}/links,match=disk-*' & plugin{node}=$!; "
            f"export CSI_ENDPOINT=unix://{own}/csi.sock")


def _id(name):
    return "id_" + re.sub(r"\W", "_", name)


def _answer(field):
    return f"--json | jq -r .{field}"


def _capability(step):
    mode = (step.get("mode") or "SINGLE_NODE_WRITER").lower().replace("_", "-")
    return f"--access {mode}" + (" --block" if step["block"] else "")


def _staging(step):
    return f"--staging-path {_node(step)}/mounts/{step['volume']}/staging"


def _place(step):
    path = f"{_node(step)}/mounts/{step['volume']}/targets/{step['target']}"
    return path if step.get("file") is None else f"{path}/{step['file']}"


def _size(step):
    return f"--size {step['size'] // 1024}KiB"


def _create(step):
    source = f" --from-{step['source'][0]} ${_id(step['source'][1])}" if step["source"] else ""
    fs = f" --fs-type {step['fs']}" if step["fs"] and not step["source"] else ""
    fs += f" --param device={step['device']}" if step.get("device") else ""
    return (f"{_id(step['volume'])}=$(mooring csi create {step['volume']} {_size(step)} --param pool={step['pool']}{fs} "
            f"{_capability(step)}{source} {_answer('volume.volume_id')})")


def _delete(step):
    return f"mooring csi delete ${_id(step['volume'])}"


def _stage(step):
    return (f"mkdir -p {_node(step)}/mounts/{step['volume']}/staging; "
            f"mooring csi stage ${_id(step['volume'])} {_staging(step)} {_capability(step)}")


def _unstage(step):
    return f"mooring csi unstage ${_id(step['volume'])} {_staging(step)}"


def _publish(step):
    read_only = " --read-only" if step["readonly"] else ""
    return (f"mkdir -p {_node(step)}/mounts/{step['volume']}/targets; mooring csi publish ${_id(step['volume'])} "
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
        return f"rm -f {W}/images/.filler {W}/images/.inode-* && sync -f {W}/images"
    if step["on"] == "inodes":
        return f"for n in $(seq 1000); do touch {W}/images/.inode-$n || break; done"
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


def _wipe(step):
    return f"blkdiscard -z {W}/links/{step['disk']}"


def _attach(step):
    return f"mooring csi controller-publish ${_id(step['volume'])} --node node-{step['to']}"


def _detach(step):
    return f"mooring csi controller-unpublish ${_id(step['volume'])} --node node-{step['to']}"


def _kill(step):
    if step["who"] == "plugin":
        return f"kill -KILL $plugin{step.get('node', 0)}; wait\n{_start(step)}"
    if step["who"] == "helper":
        return f"pkill -KILL -f 'mooring-mounter --mount-root {_node(step)}/mounts'"
    return f"# not shown here, because it would end the processes of other plugins, too: {step}"


def _restart(step):
    return f"kill $plugin{step.get('node', 0)}; wait\n{_start(step)}"


def _upgrade(step):
    return f"PATH=/path/of/the/other/build/bin:$PATH; {_restart(step)}"
