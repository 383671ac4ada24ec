# SPDX-License-Identifier: Apache-2.0
"""The resources that are served, their defaults and their checks."""

import base64
import re
from dataclasses import dataclass
from datetime import datetime

from . import status


@dataclass(frozen=True)
class Kind:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    custom: bool = False
    generation: bool = False

    @property
    def api_version(self):
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self):
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def base(self):
        return (f"/apis/{self.group}/{self.version}" if self.group
                else f"/api/{self.version}")


EXT = "extensions.agents.x-k8s.io"
AGENTS = "agents.x-k8s.io"

NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = Kind("", "v1", "pods", "Pod", generation=True)
SECRETS = Kind("", "v1", "secrets", "Secret")
EVENTS = Kind("", "v1", "events", "Event")
QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota")
SERVICES = Kind("", "v1", "services", "Service")
CONFIGMAPS = Kind("", "v1", "configmaps", "ConfigMap")
PVCS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
JOBS = Kind("batch", "v1", "jobs", "Job", generation=True)
CLAIMS = Kind(EXT, "v1beta1", "sandboxclaims", "SandboxClaim",
              custom=True, generation=True)
TEMPLATES = Kind(EXT, "v1beta1", "sandboxtemplates", "SandboxTemplate",
                 custom=True, generation=True)
POOLS = Kind(EXT, "v1beta1", "sandboxwarmpools", "SandboxWarmPool",
             custom=True, generation=True)
SANDBOXES = Kind(AGENTS, "v1beta1", "sandboxes", "Sandbox",
                 custom=True, generation=True)
GATEWAYS = Kind("gateway.networking.k8s.io", "v1", "gateways", "Gateway",
                custom=True, generation=True)
REVIEWS = Kind("authorization.k8s.io", "v1", "selfsubjectaccessreviews",
               "SelfSubjectAccessReview", namespaced=False)
TOKENS = Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview",
              namespaced=False)

ALL = [NAMESPACES, PODS, SECRETS, EVENTS, QUOTAS, SERVICES, CONFIGMAPS, PVCS,
       JOBS, CLAIMS, TEMPLATES, POOLS, SANDBOXES, GATEWAYS, REVIEWS,
       TOKENS]
BY_PATH = {(k.group, k.version, k.plural): k for k in ALL}
STATUS_SUBRESOURCE = {CLAIMS, POOLS, SANDBOXES, GATEWAYS, PODS, JOBS,
                      NAMESPACES, QUOTAS}

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
    "characters, '-' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')")
VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric "
    "characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')")
KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'MyName',  or "
    "'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')")


def is_subdomain(text):
    return (0 < len(text) <= 253
            and all(LABEL.fullmatch(p) for p in text.split(".")))


def is_label_key(key):
    prefix, slash, name = key.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return len(name) <= 63 and bool(QUALIFIED.fullmatch(name))


def is_label_value(value):
    return not value or (len(value) <= 63 and bool(QUALIFIED.fullmatch(value)))


def get(obj, *path, default=None):
    for key in path:
        if not isinstance(obj, dict) or key not in obj:
            return default
        obj = obj[key]
    return obj


def check_shape(kind, obj):
    """What the server cannot even decode: 400."""
    if not isinstance(obj, dict):
        raise status.ApiError(400, "couldn't get version/kind; json parse "
                              "error: the body is no object")
    if (obj.get("kind", kind.kind) != kind.kind
            or obj.get("apiVersion", kind.api_version) != kind.api_version):
        raise status.ApiError(400, f"{kind.kind} in version "
                              f'"{kind.api_version}" cannot be handled as a '
                              f"{obj.get('kind')} of {obj.get('apiVersion')}")
    for field in "labels", "annotations":
        for value in (get(obj, "metadata", field) or {}).values():
            if not isinstance(value, str):
                raise status.ApiError(
                    400, f"{kind.kind} in version \"{kind.version}\" cannot "
                    "be handled: json: cannot unmarshal into Go struct field "
                    f"ObjectMeta.metadata.{field} of type string")


def check(kind, obj):
    """What the server decodes and refuses: 422 with every cause."""
    meta = obj["metadata"]
    name = meta.get("name", "")
    causes = []

    def bad(field, value, text):
        causes.append(("FieldValueInvalid", field,
                       f'Invalid value: "{value}": {text}'))

    if not name:
        causes.append(("FieldValueRequired", "metadata.name",
                       "Required value: name or generateName is required"))
    elif not is_subdomain(name):
        bad("metadata.name", name, SUBDOMAIN_TEXT)
    for key, value in (meta.get("labels") or {}).items():
        if not is_label_key(key):
            bad("metadata.labels", key, KEY_TEXT)
        if not is_label_value(value):
            bad("metadata.labels", value, VALUE_TEXT)
    for key in meta.get("annotations") or {}:
        if not is_label_key(key.lower()):
            bad("metadata.annotations", key, KEY_TEXT)
    check_spec(kind, obj, causes)
    if causes:
        raise status.invalid(kind, name, causes)


REQUIRED = {CLAIMS: [("spec", "warmPoolRef", "name")],
            POOLS: [("spec", "sandboxTemplateRef", "name")],
            TEMPLATES: [("spec", "podTemplate", "spec")],
            SANDBOXES: [("spec", "podTemplate", "spec")],
            PODS: [("spec", "containers")],
            JOBS: [("spec", "template", "spec")]}


def check_spec(kind, obj, causes):
    for path in REQUIRED.get(kind, []):
        if not get(obj, *path):
            causes.append(("FieldValueRequired", ".".join(path),
                           "Required value"))
    if kind is CLAIMS:
        life = get(obj, "spec", "lifecycle") or {}
        when = life.get("shutdownTime")
        if when is not None and parse_time(when) is None:
            causes.append(("FieldValueTypeInvalid",
                           "spec.lifecycle.shutdownTime",
                           f'Invalid value: "{when}": must be of type '
                           "date-time"))
        policy = life.get("shutdownPolicy", "Retain")
        allowed = ("Delete", "DeleteForeground", "Retain")
        if policy not in allowed:
            causes.append(("FieldValueNotSupported",
                           "spec.lifecycle.shutdownPolicy",
                           f'Unsupported value: "{policy}": supported '
                           "values: " + ", ".join(f'"{a}"' for a in allowed)))
    if kind is SANDBOXES:
        mode = get(obj, "spec", "operatingMode", default="Running")
        if mode not in ("Running", "Suspended"):
            causes.append(("FieldValueNotSupported", "spec.operatingMode",
                           f'Unsupported value: "{mode}": supported values: '
                           '"Running", "Suspended"'))


def parse_time(text):
    if not isinstance(text, str):
        return None
    try:
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return when.timestamp() if when.tzinfo else None


def set_defaults(kind, obj):
    spec = obj.setdefault("spec", {}) if kind.generation else {}
    if kind is CLAIMS and spec.get("lifecycle"):
        spec["lifecycle"].setdefault("shutdownPolicy", "Retain")
    elif kind is POOLS:
        spec.setdefault("replicas", 1)
        spec.setdefault("updateStrategy", {}).setdefault("type",
                                                         "OnReplenish")
    elif kind is SANDBOXES:
        spec.setdefault("operatingMode", "Running")
        spec.setdefault("shutdownPolicy", "Retain")
    elif kind is PODS:
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("terminationGracePeriodSeconds", 30)
        obj.setdefault("status", {"phase": "Pending", "qosClass":
                                  "BestEffort"})
    elif kind is JOBS:
        spec.setdefault("parallelism", 1)
        spec.setdefault("completions", 1)
        spec.setdefault("backoffLimit", 6)
        obj.setdefault("status", {})
    elif kind is SECRETS:
        obj.setdefault("type", "Opaque")
        encode_string_data(obj)
    elif kind is NAMESPACES:
        obj.setdefault("spec", {"finalizers": ["kubernetes"]})
        obj.setdefault("status", {"phase": "Active"})


def encode_string_data(obj):
    for key, value in obj.pop("stringData", {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(
            value.encode()).decode()
