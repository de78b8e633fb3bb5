"""A history as commands for a person."""

W = "/tmp/by-hand"


def script_of(steps, pool_fs):
    lines = [f"mkdir -p {W}/state {W}/images {W}/plain {W}/node"]
    if pool_fs == "tmpfs":
        lines += [f"mount -t tmpfs none {W}/images"]
    else:
        lines += [f"truncate -s 6G {W}/disk.img && mkfs.{pool_fs} -q {W}/disk.img && mount -o loop {W}/disk.img {W}/images"]
    lines += [start(), f"export CSI_ENDPOINT=unix://{W}/csi.sock"]
    return "\n".join(lines + [line_of(step) for step in steps])


def start():
    return (f"mooring-plugin --endpoint {W}/csi.sock --state-dir {W}/state --mount-root {W}/node --node-id node-1 \\\n"
            f"  --pool name=default,backend=image,path={W}/images --pool name=plain,backend=directory,path={W}/plain \\\n"
            "  --pool name=memory,backend=tmpfs,size=1GiB &")


def line_of(step):
    make = globals().get(f"_{step['do']}")
    return make(step) if make else f"# {step}"


def _capability(step):
    return ("--block" if step["block"] else "") + f" --access-mode {step.get('mode') or 'SINGLE_NODE_WRITER'}"


def _place(step):
    path = f"{W}/node/{step['volume']}/targets/{step['target']}"
    return path if step.get("file") is None else f"{path}/{step['file']}"


def _create(step):
    source = f" --from-{step['source'][0]} ${{{step['source'][1]}}}" if step["source"] else ""
    fs = f" --parameter fsType={step['fs']}" if step["fs"] and not step["source"] else ""
    return (f"{step['volume']}=$(mooring csi create {step['volume']} --size {step['size']} --parameter pool={step['pool']}{fs} "
            f"{_capability(step)}{source})")


def _delete(step):
    return f"mooring csi delete ${step['volume']}"


def _stage(step):
    path = f"{W}/node/{step['volume']}/staging"
    return f"mkdir -p {path}; mooring csi stage ${step['volume']} --staging-path {path} {_capability(step)}"


def _unstage(step):
    return f"mooring csi unstage ${step['volume']} --staging-path {W}/node/{step['volume']}/staging"


def _publish(step):
    return (f"mkdir -p {W}/node/{step['volume']}/targets; mooring csi publish ${step['volume']} --target-path {_place(step)} "
            f"--staging-path {W}/node/{step['volume']}/staging {_capability(step)}{' --read-only' if step['readonly'] else ''}")


def _unpublish(step):
    return f"mooring csi unpublish ${step['volume']} --target-path {_place(step)}"


def _write(step):
    flags = {"direct": " oflag=direct", "synced": " conv=notrunc,fsync"}.get(step["how"], "")
    return (f"python3 -c 'import sys, struct; sys.stdout.buffer.write(struct.pack(\"<Q\", {step['number']}) * 512)' | "
            f"dd of={_place(step)} bs=4096 seek={step['block']} conv=notrunc status=none iflag=fullblock{flags}  # {step['how']}")


def _remove(step):
    return f"rm {_place(step)}"


def _fill(step):
    return f"fallocate -l $(df --output=avail -B1 {W}/images | tail -1) {W}/images/.filler" if step["on"] else f"rm {W}/images/.filler"


def _grow(step):
    return f"mooring csi expand ${step['volume']} --size {step['size']}"


def _node_grow(step):
    return f"mooring csi node-expand ${step['volume']} --volume-path {_place(step)}"


def _snapshot(step):
    return f"{step['snapshot']}=$(mooring csi snapshot create {step['snapshot']} ${step['volume']})"


def _unsnapshot(step):
    return f"mooring csi snapshot delete ${step['snapshot']}"


def _kill(step):
    names = {"plugin": "mooring-plugin", "helper": "mooring-mounter", "holders": "mooring-hold"}
    who = [names[step["who"]]] if step["who"] != "all" else list(names.values())
    again = [start()] if step["who"] in ("plugin", "all") else []
    return "\n".join([f"pkill -KILL -x {name}" for name in who] + again)


def _restart(_):
    return "pkill -TERM -x mooring-plugin; wait\n" + start()
