# SPDX-License-Identifier: Apache-2.0
"""Status objects and errors as kube-apiserver words them."""

REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden",
           404: "NotFound", 405: "MethodNotAllowed", 406: "NotAcceptable",
           409: "Conflict", 410: "Expired", 413: "RequestEntityTooLarge",
           415: "UnsupportedMediaType", 422: "Invalid",
           429: "TooManyRequests", 500: "InternalError",
           503: "ServiceUnavailable", 504: "Timeout"}

MESSAGES = {401: "Unauthorized", 410: "The resourceVersion for the provided "
            "watch is too old.", 429: "Too many requests, please try again "
            "later.", 500: "Internal error occurred: made up by a test",
            503: "the server is currently unable to handle the request",
            504: "Timeout: request did not complete within the allotted "
            "timeout"}


class ApiError(Exception):
    """Ends a request with a Status body, or with plain text."""

    def __init__(self, code, message=None, reason=None, details=None,
                 headers=None, plain=False):
        super().__init__(message)
        self.code = code
        self.headers = headers or {}
        self.text = message if plain else None
        self.body = None if plain else status(code, message, reason, details)


def status(code, message=None, reason=None, details=None):
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure",
            "message": message or MESSAGES.get(code, "made up by a test"),
            "reason": reason or REASONS.get(code, "Unknown")}
    if details:
        body["details"] = details
    body["code"] = code
    return body


def success(kind, obj):
    return {"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Success",
            "details": named(kind, obj["metadata"]["name"],
                             uid=obj["metadata"]["uid"])}


def named(kind, name, **more):
    details = {"name": name}
    if kind.group:
        details["group"] = kind.group
    return {**details, "kind": kind.plural, **more}


def page_not_found():
    return ApiError(404, "404 page not found\n", plain=True)


def not_found(kind, name):
    return ApiError(404, f'{kind.resource} "{name}" not found',
                    details=named(kind, name))


def already_exists(kind, name):
    return ApiError(409, f'{kind.resource} "{name}" already exists',
                    "AlreadyExists", named(kind, name))


def conflict(kind, name, why):
    return ApiError(409, "Operation cannot be fulfilled on "
                    f'{kind.resource} "{name}": {why}',
                    details=named(kind, name))


def forbidden(kind, name, why):
    who = f'{kind.resource} "{name}"' if name else kind.resource
    return ApiError(403, f"{who} is forbidden: {why}",
                    details=named(kind, name) if name else
                    {k: v for k, v in named(kind, "").items() if v})


def invalid(kind, name, causes):
    """causes: (reason, field, text) for each fault."""
    texts = [f"{field}: {text}" for _, field, text in causes]
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    title = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = {"name": name}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.kind
    details["causes"] = [{"reason": reason, "message": text, "field": field}
                         for reason, field, text in causes]
    return ApiError(422, f'{title} "{name}" is invalid: {text}',
                    details=details)


def expired(asked, oldest):
    return status(410, f"too old resource version: {asked} ({oldest})")
