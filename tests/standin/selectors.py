# SPDX-License-Identifier: Apache-2.0
"""Label and field selectors: text to a predicate on an object."""

import re

from . import kinds, status

TERM = re.compile(r"\s*(!?)\s*([-A-Za-z0-9_./]+)\s*"
                  r"(?:(==|=|!=)\s*([-A-Za-z0-9_.]*)"
                  r"|\s(in|notin)\s*\(([^()]*)\))?\s*(?:,|$)")


def label_selector(text):
    tests = []
    at = 0
    while at < len(text):
        m = TERM.match(text, at)
        if not m or not kinds.is_label_key(m[2]) or (m[1] and m[3]):
            raise status.ApiError(
                400, f"unable to parse requirement: found '{text[at:]}', "
                "expected: a label requirement")
        if m[4] and not kinds.is_label_value(m[4]):
            raise status.ApiError(
                400, "unable to parse requirement: values[0][" + m[2]
                + f']: Invalid value: "{m[4]}": {kinds.VALUE_TEXT}')
        tests.append(label_test(m))
        at = m.end()
    return lambda obj: all(t(obj["metadata"].get("labels") or {})
                           for t in tests)


def label_test(m):
    key = m[2]
    if m[5]:
        values = {v.strip() for v in m[6].split(",")}
        if m[5] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if m[3] == "!=":
        return lambda labels: labels.get(key) != m[4]
    if m[3]:
        return lambda labels: labels.get(key) == m[4]
    if m[1]:
        return lambda labels: key not in labels
    return lambda labels: key in labels


FIELDS = {"metadata.name", "metadata.namespace"}
MORE_FIELDS = {
    kinds.PODS: {"status.phase", "spec.nodeName", "spec.restartPolicy"},
    kinds.SECRETS: {"type"},
    kinds.JOBS: {"status.successful"},
    kinds.EVENTS: {"involvedObject.name", "involvedObject.kind",
                   "involvedObject.uid", "involvedObject.namespace",
                   "reason", "type"}}


def field_selector(kind, text):
    tests = []
    for term in filter(None, text.split(",")):
        m = re.fullmatch(r"\s*([A-Za-z.]+)\s*(==|=|!=)\s*(.*?)\s*", term)
        if not m:
            raise status.ApiError(400, f"invalid selector: '{term}'; can't "
                                  f"understand '{term}'")
        if m[1] not in FIELDS | MORE_FIELDS.get(kind, set()):
            raise status.ApiError(400, "field label not supported: " + m[1])
        tests.append((m[1].split("."), m[2] == "!=", m[3]))
    return lambda obj: all(
        (str(kinds.get(obj, *path, default="")) == want) != unequal
        for path, unequal, want in tests)


def both(kind, query):
    labels = label_selector(query.get("labelSelector", ""))
    fields = field_selector(kind, query.get("fieldSelector", ""))
    return lambda obj: labels(obj) and fields(obj)
