# SPDX-License-Identifier: Apache-2.0
"""What a call costs us and the API server, on the stand-in."""

import os
import subprocess

import yaml

from measure import Row, hello, kb, median, ms, ping, tool

TITLE = "Calls to the cluster"
RUNS = 12
CLAIMS = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/" \
    "sandboxclaims"


def rows(bench):
    yield cpu(bench)
    yield from requests(bench)
    yield from at_once(bench)


def curl(bench, kubeconfig):
    """curl's command line with the same certificate, as files."""
    with open(kubeconfig, encoding="utf-8") as f:
        config = yaml.safe_load(f)
    user = config["users"][0]["user"]
    cluster = config["clusters"][0]["cluster"]
    paths = {}
    for option, values, key in (
            ("--cacert", cluster, "certificate-authority-data"),
            ("--cert", user, "client-certificate-data"),
            ("--key", user, "client-key-data")):
        paths[option] = os.path.join(bench.folder, option.strip("-"))
        with open(paths[option], "w", encoding="ascii") as f:
            subprocess.run(["base64", "-d"], input=values[key], stdout=f,
                           text=True, check=True)
    return ["curl", "-sf", *(w for p in paths.items() for w in p),
            cluster["server"] + CLAIMS]


def cpu(bench):
    """User and system time of a whole process that makes one request, less
    what the same program takes without one."""
    place = bench.place
    ours = place.server(kubeconfig=place.cert)
    env = ours.env
    ls = [*hello(), tool(1, "list_sandboxes", namespace="default")]
    commands = {
        "kubectl": ([*place.kubectl, "get", "sandboxclaims"],
                    [place.kubectl[0], "version", "--client"]),
        "curl": (curl(bench, place.cert), ["curl", "--version"]),
    }
    got = {n: ([], []) for n in (ours.name, *commands)}
    for _ in range(RUNS):
        got[ours.name][0].append(bench.probe.talk(ours, ls)[0])
        got[ours.name][1].append(
            bench.probe.talk(ours, [*hello(), ping()])[0])
        for name, pair in commands.items():
            for values, argv in zip(got[name], pair):
                values += bench.probe.command(argv, env)
    whole, without = ({n: median([r["cpu_us"] for r in v[i]])
                       for n, v in got.items()} for i in (0, 1))
    texts = [f"{ms(whole[n] - without[n])} (whole process {ms(whole[n])})"
             for n in got]
    hwm = max(r["hwm_kb"] for r in got[ours.name][0])
    return Row("CPU of one mTLS request (list_sandboxes)",
               f"{texts[0]}, peak {kb(hwm)}",
               [f"{n}: {t}" for n, t in zip(commands, texts[1:])])


CALLS = {
    "execute_command": {"command": "true"},
    "upload_file": {"path": "f", "content": "x"},
    "download_file": {"path": "f"},
    "list_files": {"path": "."},
    "file_exists": {"path": "f"},
    "stat_file": {"path": "f"},
    "get_sandbox_status": {},
    "list_sandboxes": None,             # of a namespace
}


def requests(bench):
    """Every request that the API server saw, in the calls after the first;
    and our own CPU for one of those."""
    place = bench.place
    for way in place.pools:
        with place.sandbox(bench.probe, way) as handle:
            found = {name: counted(bench, way, name, arguments, handle)
                     for name, arguments in CALLS.items()}
        most = max(each for _, each, _ in found.values())
        yield Row(f"requests to the API server ({way}), the first and each "
                  "later", ", ".join(f"{name} {first}, {each:g}" for
                                     name, (first, each, _) in found.items()),
                  [], "<= 1 after the first", most <= 1)
        yield Row(f"CPU of a further call ({way})",
                  ", ".join(f"{name} {ms(cpu_us)}" for
                            name, (_, _, cpu_us) in found.items()))


def counted(bench, way, name, arguments, handle):
    """(requests of the first, of each later one, CPU us of each later)."""
    counts, spent = [], []
    if arguments is None:
        given = {"namespace": handle["namespace"]}
    else:
        given = {**arguments, **handle}
    for n in (1, 11):
        bench.standin.forget_requests()
        run = bench.probe.talk(bench.place.server(way), [*hello(), tool(
            "first", "upload_file", path="f", content="x", **handle), *(
                tool(i, name, **given) for i in range(n))])[0]
        counts.append(len(bench.standin.requests()))
        spent.append(run["cpu_us"])
    each = (counts[1] - counts[0]) / 10
    return counts[0] - round(each), each, max(spent[1] - spent[0], 0) / 10


def at_once(bench):
    place = bench.place
    for way in place.pools:
        with place.sandbox(bench.probe, way) as handle:
            script = [*hello(), *(
                tool(i, "execute_command", command="true", **handle)
                for i in range(32))]
            took = [bench.probe.talk(place.server(way), script, runs=3,
                                     window=w) for w in (1, 32)]
        one, all_ = (min(r["all_us"] for r in runs) for runs in took)
        yield Row(f"32 execute_command, one by one and at once ({way})",
                  f"{ms(one)}, {ms(all_)}, peak "
                  f"{kb(max(r['hwm_kb'] for r in took[1]))}", [],
                  "every one answered", True)
