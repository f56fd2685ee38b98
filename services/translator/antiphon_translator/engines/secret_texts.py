"""Masks texts that look like credentials in what an engine says about an error.

Servers and proxies quote the key that they reject, the header that they got, or the URL that they called with its
password. Clients must not get these, and the log of a gateway is read by more people than the key's file.

Every pattern takes linear time: a match begins only where nothing before it could belong to it.
"""

from __future__ import annotations

import re

MASK = "[secret]"
_LETTERS = r"[A-Za-z0-9_.~+/=*-]"
_KEY = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(?:sk|pk|rk|gsk|xai|hf|nvapi|ghp|gho|ghs|glpat|github_pat|xox[abeprs]|key|pplx|tgp|r8|dapi)[-_]"
    + _LETTERS
    + "{6,}"
    r"|(?<![A-Za-z0-9])(?:AKIA|ASIA|AIza|ya29\.)" + _LETTERS + "{8,}"
    r"|(?<![A-Za-z0-9])eyJ" + _LETTERS + "{12,}"  # a JWT
    r"|(?<![A-Za-z0-9_-])(?=[A-Fa-f]{0,200}[0-9])[A-Fa-f0-9]{32,}(?![A-Za-z0-9])"
    r"|(?<![A-Za-z0-9_+/=-])(?=[A-Za-z_+/-]{0,200}[0-9])(?=[0-9a-z_+/-]{0,200}[A-Z])[A-Za-z0-9_+/-]{40,}={0,2}"
)
"""Texts whose own form shows that they are keys: a vendor's prefix, or many digits and letters without a gap."""
_SCHEME = re.compile(r"\b(Bearer|Basic)\s+(?:[A-Za-z]+\s+)?(?=\S{0,200}[0-9_.~+/=*-])\S{4,}", re.IGNORECASE)
"""The credentials of an `Authorization` header. Words of letters alone are prose: "bearer token required"."""
_NAMED = re.compile(
    r"\b((?:x-)?api[-_ ]?key|authorization|(?:access|auth)[-_ ]?token|client[-_ ]?secret|password|passwd|pwd|secret"
    r"|token(?=.{1,12}?\b[^\s\"',;&}]{0,200}[0-9][^\s\"',;&}]{6}))"
    r"""(["']?\s*(?:[:=]|\bprovided:|\bis:)\s*["']?(?:(?:Bearer|Basic|Token)\s+)?)(?!\[)[^\s"',;&}]{4,}""",
    re.IGNORECASE,
)
"""The value behind the name of a credential. A `token` may also be one of text: its value must have a digit and some
length."""
_USER = re.compile(r"(?<![^\s\"'(<=])[^\s:@/\"'(<]{1,100}:[^\s@/]{1,200}@(?=[\w\[])")
"""A user with a password before a host, without the scheme of a URL."""
_USER_OF_URL = re.compile(r"(?<=://)[^\s@/]{1,300}@")


def mask_secrets(text: str) -> str:
    """The text with MASK in place of each part that looks like a credential."""
    text = _USER_OF_URL.sub(f"{MASK}@", text)
    text = _USER.sub(f"{MASK}@", text)
    text = _SCHEME.sub(rf"\1 {MASK}", text)
    text = _NAMED.sub(rf"\1\2{MASK}", text)
    return _KEY.sub(MASK, text)
