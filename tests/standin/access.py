# SPDX-License-Identifier: Apache-2.0
"""Who asks, and what they may: tokens, client certificates, rules.

"admin" may everything, "nobody" nothing, "limited" what its rules say: at
first what a user of agent-sandbox needs in the namespace "default".
"""

from . import kinds, status

MINE = "default"
LIMITED = [
    {"namespace": MINE, "resources": ["sandboxclaims"],
     "verbs": ["create", "get", "list", "watch", "delete", "patch"]},
    {"namespace": MINE, "resources": ["sandboxes"],
     "verbs": ["get", "list", "watch", "patch"]},
    {"namespace": MINE, "resources": ["sandboxwarmpools", "sandboxtemplates"],
     "verbs": ["get", "list"]},
    {"namespace": MINE, "resources": ["pods"],
     "verbs": ["get", "list", "watch"]},
    {"namespace": MINE, "resources": ["pods/exec", "pods/portforward"],
     "verbs": ["get", "create"]}]


class Access:
    def __init__(self, tokens):
        self.tokens = tokens
        self.reset()

    def reset(self):
        self.rules = {"limited": [dict(r) for r in LIMITED]}

    def user(self, request):
        """Raises 401 for a bad token; no credentials at all are anonymous."""
        given = request.headers.get("authorization", "")
        if given:
            scheme, _, token = given.partition(" ")
            if scheme.lower() != "bearer" or token not in self.tokens:
                raise status.ApiError(401)
            return self.tokens[token]
        cert = request.conn.writer.get_extra_info("peercert")
        if cert:
            return dict(p[0] for p in cert["subject"])["commonName"]
        return "system:anonymous"

    def may(self, user, verb, resource, namespace):
        if user == "admin":
            return True
        return any(verb in rule["verbs"] and resource in rule["resources"]
                   and rule.get("namespace") in (None, namespace)
                   for rule in self.rules.get(user, []))

    def demand(self, user, verb, kind, sub, namespace, name):
        resource = kind.plural + (f"/{sub}" if sub else "")
        if kind is kinds.REVIEWS or self.may(user, verb, resource, namespace):
            return
        where = (f' in the namespace "{namespace}"' if namespace
                 else " at the cluster scope")
        raise status.forbidden(
            kind, name, f'User "{user}" cannot {verb} resource "{resource}" '
            f'in API group "{kind.group}"' + where)

    def known(self, body):
        """A TokenReview: whose token this is."""
        name = self.tokens.get(kinds.get(body, "spec", "token"))
        return {**body, "spec": {}, "status": {
            "authenticated": True, "user": {
                "username": f"system:serviceaccount:default:{name}",
                "groups": ["system:serviceaccounts", "system:authenticated"]}}
            if name else {"authenticated": False, "error": "no such token"}}

    def review(self, user, body):
        asked = kinds.get(body, "spec", "resourceAttributes") or {}
        resource = asked.get("resource", "")
        if asked.get("subresource"):
            resource += "/" + asked["subresource"]
        allowed = self.may(user, asked.get("verb", ""), resource,
                           asked.get("namespace", ""))
        return {**body, "status": {"allowed": allowed, **(
            {} if allowed else {"reason": "no rule of the test allows it"})}}
