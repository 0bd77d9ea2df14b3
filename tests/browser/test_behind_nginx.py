"""The page below a path of a real nginx: what scripts do stays there, too."""

import re
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from tests.browser.watched import Watched
from tests.coordinator_api.group_members import new_group
from tests.coordinator_api.nginx import running_nginx
from tests.coordinator_api.service_process import ServiceProcess


def test_should_search_and_stay_up_to_date_below_a_path(
    page: Page, watched: Watched, service: ServiceProcess, client: httpx.Client, tmp_path: Path
) -> None:
    with running_nginx(tmp_path, f"location /tools/assignor/ {{ proxy_pass {service.url}/; }}") as port:
        origin = f"http://127.0.0.1:{port}"
        watched.origins.add(origin)
        first = new_group(client)
        page.goto(f"{origin}/tools/assignor/")
        expect(page).to_have_url(f"{origin}/tools/assignor/ui/groups")
        expect(page.get_by_role("link", name=first)).to_be_visible()
        second = new_group(client)
        expect(page.get_by_role("link", name=second)).to_be_visible()  # an event came, and the live part after it
        page.get_by_label("Search").fill(first)
        expect(page).to_have_url(re.compile(rf"{origin}/tools/assignor/ui/groups\?.*q={re.escape(first)}"))
        expect(page.get_by_role("link", name=second)).to_have_count(0)
        page.get_by_role("link", name=first).click()
        expect(page).to_have_url(f"{origin}/tools/assignor/ui/groups/{first}")
        page.goto("about:blank")
