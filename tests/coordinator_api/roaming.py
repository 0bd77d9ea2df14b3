"""For tests: a caller of several coordinators, who asks another when one does not answer, and goes where he is sent."""

import time
from collections.abc import Sequence

import httpx

LONGEST_S = 60.0
_PAUSE_S = 0.05
_SILENT_AFTER_S = 10
"""Less than a session: whoever asks one that stands still comes to another one in time."""


class Roaming(httpx.BaseTransport):
    """`urls`: of the coordinators. `asked`: to where each request went last."""

    def __init__(self, urls: Sequence[str], token: str | None = None) -> None:
        self._clients = {url: httpx.Client(base_url=url, trust_env=False, timeout=_SILENT_AFTER_S) for url in urls}
        self._first = urls[0]
        self._token = token
        self.asked: list[str] = []
        self.refusals: list[tuple[str, int]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Raises AssertionError when nobody answers for long."""
        ends_s = time.monotonic() + LONGEST_S
        url = self._first
        while time.monotonic() < ends_s:
            self.asked.append(url)
            answer = self._ask(url, request)
            if answer is not None and answer.status_code == 307:
                url = answer.headers["location"].partition("/v1/")[0]
                continue
            if answer is not None and answer.status_code != 503:
                self._first = url
                return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
            self.refusals.append((url, 0 if answer is None else answer.status_code))
            known = list(self._clients)
            url = known[(known.index(url) + 1) % len(known)]
            time.sleep(_PAUSE_S)
        raise AssertionError(f"nobody answered {request.method} {request.url}: {self.refusals[-5:]}")

    def _ask(self, url: str, request: httpx.Request) -> httpx.Response | None:
        headers = {"content-type": "application/json"} if request.content else {}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        client = self._clients.setdefault(url, httpx.Client(base_url=url, trust_env=False, timeout=_SILENT_AFTER_S))
        try:
            return client.request(
                request.method,
                request.url.raw_path.decode("ascii"),
                content=request.content,
                headers=headers,
                follow_redirects=False,
            )
        except httpx.TransportError:
            return None

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def roaming_client(*urls: str, token: str | None = None) -> httpx.Client:
    """Its base URL means nothing: calls go to whoever of `urls` answers."""
    return httpx.Client(transport=Roaming(urls, token), base_url="http://roaming")
